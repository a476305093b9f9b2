"""Requirements, resolved by uv, as a hashed lock that names no host."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envdoctor.app.result import Dialog, Result
from envdoctor.documents.profile_store import read_lock
from envdoctor.errors import NoTargetError, TargetError, UsageError
from envdoctor.facts.host import Host
from envdoctor.facts.locate import locate
from envdoctor.facts.regular_file import read_text
from envdoctor.facts.whole_file import write_named
from envdoctor.gate_package.into_lock import document_with, keep_wheel, locked
from envdoctor.model.frozen import frozen, replace
from envdoctor.probes.venv.own_packages import read_venv
from envdoctor.standards.lock import Lock, LockedPackage
from envdoctor.standards.pylock import is_pylock
from envdoctor.wheels import index_config, locking, pip_config, pylock_text
from envdoctor.wheels import uv as uv_tool
from envdoctor.wheels.pylock_text import Form, LockedWheel
from envdoctor.wheels.wheelhouse import beside

DEFAULT_PYTHON = "3.12"
"""Where no venv is found."""
_MAXIMUM = 8 << 20


@frozen
class LockOptions:
    """What is to be locked, and how."""

    requirements: str
    """Path of the direct requirements."""
    pythons: tuple[str, ...] = ()
    """Versions, "3.12"; empty for that of the venv that is found, else DEFAULT_PYTHON."""
    machines: tuple[str, ...] = ()
    """Names as uname prints them; empty for this machine's."""
    form: Form = "requirements"
    exclude_newer: str = ""
    undated: tuple[str, ...] = ()
    torch_backend: str = ""
    upgrade: tuple[str, ...] = ()
    with_gate: bool = False
    output: str = ""
    """Path of the lock, whose head comment and, with `upgrade`, whose pins are kept; empty or "-" for none."""

    @property
    def target(self) -> Path | None:
        """Return the path of the lock; None when it is not a file."""
        return Path(self.output) if self.output not in {"", "-"} else None


@frozen
class Locked:
    """A lock, as text and as what it pins."""

    form: Form
    lock: Lock
    content: str
    file: str
    """Where it was written; empty when no file was named."""


def lock(wishes: LockOptions, host: Host, dialog: Dialog) -> Result:
    """Resolve the requirements. Raises UsageError, LockError."""
    path, target = Path(wishes.requirements), wishes.target
    known = locking.attested(_text(path), str(path))
    _refuse_names(target, wishes.form)
    if target is not None and target.exists() and target.samefile(path):
        raise UsageError(f"the lock would replace {path}, which it is made of", "name another output")
    if wishes.with_gate and target is None:
        raise UsageError("--with-gate puts a wheel beside the lock, which is not a file", "name one: `--output FILE`")
    kept = _pins(target, wishes.upgrade)
    platforms = _platforms(wishes, host, dialog)
    wanted = locking.LockRequest(
        requirements=path,
        platforms=platforms,
        before=wishes.exclude_newer,
        undated=wishes.undated,
        torch_backend=wishes.torch_backend,
        kept=kept,
        upgrade=wishes.upgrade,
    )
    resolved = _resolved(wanted, host, dialog)
    made = locking.lock_of(resolved, platforms, path.stem, known)
    if not made.packages:
        raise UsageError(
            f"{path} asks for nothing here, and nothing was written", "name what the stack is to have in it"
        )
    gate = _kept_gate(target) if wishes.with_gate and target is not None else None
    content = _content(resolved, made, gate, wishes.form, locking.head_of(target))
    pinned = locked(made, gate) if gate else made
    data = Locked(form=wishes.form, lock=pinned, content=content, file=str(target) if target else "")
    if target is not None:
        _write(target, content)
    return Result(command="lock", data=data)


def _platforms(wishes: LockOptions, host: Host, dialog: Dialog) -> tuple[locking.LockPlatform, ...]:
    """Return each Python on each machine that the lock is to fit; what nobody named is said.

    Raises UsageError for a venv that is there and does not say its Python: a lock for another one would not fit it.
    """
    pythons, machines, whose = wishes.pythons, wishes.machines or (host.machine,), ""
    if not pythons:
        name_one = f"name the Python that the lock is for: `--python {DEFAULT_PYTHON}`"
        try:
            venv = locate("", host).target.prefix
        except NoTargetError:
            pythons = (DEFAULT_PYTHON,)
        except TargetError as error:
            raise UsageError(error.message, name_one) from error
        else:
            version = read_venv(venv).python
            if not version:
                raise UsageError(f"the Python of {venv} could not be determined", name_one)
            pythons, whose = (".".join(version.split(".")[:2]),), f", that of {venv},"
    if not (wishes.pythons and wishes.machines):
        on = f"{' and '.join(pythons)}{whose} on {' and '.join(machines)}"
        dialog.note(f"note: the lock is for Python {on}; `--python` and `--machine` name others")
    return tuple(locking.LockPlatform(python=python, machine=name) for python in pythons for name in machines)


def _resolved(wanted: locking.LockRequest, host: Host, dialog: Dialog) -> dict[str, Any]:
    uv = uv_tool.locate(host.environ, host.cwd)
    pip = pip_config.read(host.environ, host.home)
    sources = index_config.configured(uv, _dated(pip, dialog) if wanted.before else pip, host.home, sys.executable)
    for warning in sources.warnings:
        dialog.note(f"warning: {warning}")
    if uv.config.project:
        dialog.note(f"note: packages are taken from the places that {uv.config.project} names, too")
    return locking.resolve(wanted, uv, sources.everywhere)


def _text(path: Path) -> str:
    try:
        return read_text(path, _MAXIMUM)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise UsageError(f"{path} cannot be read: {why}", "name a file of direct requirements") from error


def _write(target: Path, content: str) -> None:
    try:
        write_named(target, content.encode())
    except OSError as error:
        raise UsageError(
            f"cannot write {target}: {error.strerror}", "name a file in a folder you may write to"
        ) from error


def _kept_gate(target: Path) -> LockedWheel:
    # The folder has the profile's name, and a lock that of its profile.
    return keep_wheel(beside(target, target.stem.removeprefix("pylock.")))


def _content(resolved: Mapping[str, Any], made: Lock, gate: LockedWheel | None, lock_format: Form, head: str) -> str:
    if lock_format == "requirements":
        return locking.text_of(locked(made, gate) if gate else made, head)
    document = pylock_text.narrowed(resolved, made)
    return pylock_text.text_of(document_with(document, gate) if gate else document, head)


def _dated(pip: pip_config.PipSettings, dialog: Dialog) -> pip_config.PipSettings:
    """Leave out indexes on disk: they state no upload times, and uv then takes an older version from elsewhere."""
    undated = tuple(url for url in pip.extra_index_urls if url.startswith("file:"))
    for url in undated:
        dialog.note(f"note: {url} states no upload times, so it is not asked with --exclude-newer")
    return replace(pip, extra_index_urls=tuple(url for url in pip.extra_index_urls if url not in undated))


def _refuse_names(target: Path | None, lock_format: Form) -> None:
    """Refuse a file name that says another format than the lock's: what reads it goes by the name."""
    if target is not None and is_pylock(target.name) != (lock_format == "pylock"):
        wanted = "pylock.NAME.toml" if lock_format == "pylock" else "NAME.txt"
        raise UsageError(f"{target.name} cannot name a lock of the format {lock_format}", f"call it {wanted}")


def _pins(target: Path | None, upgrade: tuple[str, ...]) -> tuple[LockedPackage, ...]:
    """Return the pins of the lock that is updated; none when all of it is resolved again."""
    if not upgrade:
        return ()
    if target is None or not target.is_file():
        raise UsageError("--upgrade updates a lock, and there is none", "name it: `--output FILE`")
    return read_lock(target).packages
