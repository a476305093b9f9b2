"""A lock of another tool, as the checks compare it with an installed environment."""

from envdoctor.errors import LockError
from envdoctor.facts.host import Host
from envdoctor.foreign_locks.exporters import exported
from envdoctor.foreign_locks.formats import LockFile
from envdoctor.foreign_locks.selection import select
from envdoctor.model.fingerprint import Fingerprint, MissingFactError
from envdoctor.model.wording import counted
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.probes.venv.interpreter import Interpreter
from envdoctor.standards.lock import Lock, LockedPackage
from envdoctor.standards.wheel_builds import expanded, first_place
from envdoctor.wheels.locking import NEWEST_GLIBC
from envdoctor.wheels.wheel_tags import supported

_SHOWN = 3


def lock_for(file: LockFile, host: Host, facts: Fingerprint) -> tuple[Lock, tuple[str, ...]]:
    """Return the lock for the interpreter of the facts, and notes on what it does not hold.

    Where it states no version (a folder, a repository), the installed one is as good as any: only that it is
    installed is compared. Raises LockError, MissingFactError.
    """
    try:
        python = facts[Interpreter]
    except MissingFactError as error:
        raise LockError(
            f"the lock cannot be compared: {error.reason}", "look at the environment without it: `envdoctor check`"
        ) from error
    found = exported(file, host, python.minor, facts.target)
    major, minor = (int(part) for part in python.minor.split("."))
    tags = supported((major, minor), python.machine, NEWEST_GLIBC, free_threaded=python.free_threaded)
    chosen = select(file, found, python.markers(), tags)
    packages = list(chosen.pinned)
    for source in chosen.sources:
        item = facts[Distributions].active(source.name)
        version = source.version or (item.version if item else "")
        packages.append(LockedPackage(name=source.name, version=version, hashes=()))
    lock = Lock(name=str(file.path), packages=tuple(packages), install=file.install_command())
    elsewhere = _for_another(lock, python)
    return lock, (*found.notes, *(told for told in (found.incomplete, elsewhere) if told))


def _for_another(lock: Lock, python: Interpreter) -> str:
    """Return what says that a lock is for another Python or machine, by the tags that it notes; empty where it fits."""
    tags = {one.name: one.tags for one in lock.packages if one.tags and all(one.tags)}
    minor, machine, free = python.minor, python.machine, python.free_threaded
    unfit = [
        name
        for name, told in tags.items()
        if first_place([tag for text in told for tag in expanded(text)], minor, machine, free_threaded=free) is None
    ]
    if not unfit:
        return ""
    shown = ", ".join(unfit[:_SHOWN]) + (", ..." if len(unfit) > _SHOWN else "")
    return (
        f"{lock.name} was made for another Python or machine: of {len(unfit)} of its "
        f"{counted(len(lock.packages), 'package')} ({shown}) it has no wheel for CPython {minor} on {machine}"
    )
