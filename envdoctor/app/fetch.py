"""Every wheel of a profile's lock in one folder, for a machine without an index."""

import os
import shlex
import sys
from pathlib import Path

from envdoctor.app.result import Dialog, Result
from envdoctor.doctor.workspace import Workspace
from envdoctor.documents.profile_store import ProfileRef
from envdoctor.errors import UsageError
from envdoctor.exitcodes import ExitCode
from envdoctor.model.frozen import frozen, replace
from envdoctor.wheels import fetched_wheels, index_config, pip_config, wheel_tags
from envdoctor.wheels import uv as uv_tool
from envdoctor.wheels.fetched_wheels import Fetched
from envdoctor.wheels.locked_wheels import Fit, search
from envdoctor.wheels.locking import LockPlatform
from envdoctor.wheels.wheelhouse import chosen, gate_hint, with_wheelhouses


@frozen
class FetchOptions:
    """What is fetched, and where to."""

    wheelhouse: str
    python: str = ""
    """The Python that the wheels are for; empty for the profile's first."""
    machine: str = ""
    """As uname prints it; empty for this one's."""


@frozen
class FetchResult:
    """What the wheelhouse holds now."""

    profile: str
    fetched: Fetched


def fetch(workspace: Workspace, wishes: FetchOptions, dialog: Dialog) -> Result:
    """Fetch what is not there yet, each wheel verified by its sha256. Raises UsageError, FetchError."""
    file = workspace.needs_profile("fetch", "envdoctor fetch --profile NAME --wheelhouse DIR")
    if not wishes.wheelhouse:
        command = f"envdoctor fetch --profile {shlex.quote(file.asked)} --wheelhouse DIR"
        raise UsageError("no folder to fetch into", f"name one: `{command}`")
    host = workspace.host
    folder = Path(host.cwd, wishes.wheelhouse)
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--wheelhouse {wishes.wheelhouse} is not a folder", "name the folder that the wheels go into")
    fit, markers = _fit(file, wishes.python, wishes.machine or host.machine)
    packages = list(file.lock.select(markers).values())
    uv = uv_tool.locate(host.environ, host.cwd)
    pip = pip_config.read(host.environ, host.home, command="download")
    # What capture kept is beside the lock: copied, the wheelhouse is whole and can be carried elsewhere alone.
    pip = with_wheelhouses(pip, chosen((), file, host.cwd))
    with dialog.waiting(f"planning: looking for the wheels of {file.name}"):
        sources = index_config.configured(uv, pip, host.home, sys.executable)
        found = search(packages, folder, fit, sources, uv)
    missing = (replace(one, hint=gate_hint(one.name, file.asked) or one.hint) for one in found.missing)
    found = replace(found, missing=tuple(missing))
    with dialog.listening() as listen:
        done = fetched_wheels.fetch(found, folder, sources.access, listen)
    code = ExitCode.RESTORE_FAILED if done.missing else ExitCode.OK
    return Result(command="fetch", data=FetchResult(profile=file.name, fetched=done), exit_code=code)


def _fit(file: ProfileRef, python: str, machine: str) -> tuple[Fit, dict[str, str]]:
    versions = file.profile.python.versions
    version = python or versions[0]
    if version not in versions:
        raise UsageError(
            f"--python {version}: the profile's lock is for {' or '.join(versions)}", "name one of these, or none"
        )
    major, minor = (int(part) for part in version.split("."))
    fit = Fit(
        python=version,
        machine=machine,
        # The wheels that this machine would take itself; one for an older glibc runs on a newer one, not the reverse.
        tags=wheel_tags.supported((major, minor), machine, _glibc_minor()),
        torch_backend=file.profile.lock.torch_backend,
    )
    return fit, LockPlatform(python=version, machine=machine).markers()


def _glibc_minor() -> int:
    version = (os.confstr("CS_GNU_LIBC_VERSION") or "glibc 2.0").rpartition(".")[2]
    return int(version) if version.isdecimal() else 0
