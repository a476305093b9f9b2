"""The launch gate where a train script can import it: in a lock, or as one file."""

import shlex
from pathlib import Path

from envdoctor.app.result import Dialog, Result
from envdoctor.doctor.workspace import Workspace
from envdoctor.errors import UsageError
from envdoctor.facts.host import Host
from envdoctor.facts.whole_file import write_whole
from envdoctor.gate_package.into_lock import keep_wheel, relock
from envdoctor.gate_package.shipped import is_shipped
from envdoctor.gate_package.single_file import single_file
from envdoctor.model.frozen import frozen
from envdoctor.wheels.pylock_text import LockedWheel
from envdoctor.wheels.wheelhouse import beside


@frozen
class GateAdded:
    """The gate in the lock of a profile."""

    profile: str
    profile_asked: str
    """As it was named, for commands to paste."""
    lock: str
    wheel: LockedWheel
    wheel_path: str
    installed_by: str
    """The command that installs it: `restore` where there is no venv yet."""


@frozen
class GateWritten:
    """The gate as one file."""

    path: str
    """As it was named."""
    module: str
    """What the train script imports."""


def add(workspace: Workspace) -> Result:
    """Add the gate to the lock of the profile, and its wheel beside it. Raises UsageError, LockError."""
    file = workspace.needs_profile("add the gate to", "envdoctor gate add --profile NAME")
    lock = file.lock
    if is_shipped(file.lock_path):
        raise UsageError(
            f"the profile {file.name} comes with envdoctor, so its lock is not changed",
            f"copy it into your project: `mkdir -p profiles lockfiles && cp {shlex.quote(str(file.path))} profiles/ && "
            f"cp {shlex.quote(str(file.lock_path))} lockfiles/`, then run this again",
        )
    wheel = keep_wheel(beside(file.lock_path, file.name))
    relock(file.lock_path, lock, wheel)
    data = GateAdded(
        profile=file.name,
        profile_asked=file.asked,
        lock=str(file.lock_path),
        wheel=wheel,
        wheel_path=str(file.lock_path.parent / wheel.path),
        installed_by="repair" if (workspace.folder / "pyvenv.cfg").is_file() else "restore",
    )
    return Result(command="gate add", data=data)


def write(host: Host, path: str, dialog: Dialog, *, force: bool) -> Result:
    """Write the gate as one Python file. Raises UsageError for a name that cannot be imported or written."""
    target = Path(host.cwd, path)
    if target.suffix != ".py" or not target.stem.isidentifier():
        raise UsageError(f"{path} cannot be imported", "name a Python file: `envdoctor gate write envdoctor_gate.py`")
    if target.exists() and not force:
        raise UsageError(f"{path} exists already", "add `--force` to replace it")
    if not target.parent.is_dir():
        raise UsageError(f"{path} cannot be written: {target.parent} is not a folder", "make it, or name another path")
    try:
        with dialog.waiting("putting the gate into one file"):
            write_whole(target, single_file().encode())
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}", "name another path") from error
    return Result(command="gate write", data=GateWritten(path=path, module=target.stem))
