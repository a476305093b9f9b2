"""The wheels that lie beside another lock and that it names: a profile of that lock needs them beside its own."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from envdoctor.foreign_locks.formats import LockFile
from envdoctor.standards.lock import LockedPackage
from envdoctor.wheels.download import wheel_sha256
from envdoctor.wheels.pylock_text import LockedWheel
from envdoctor.wheels.wheelhouse import beside


def carried(lock: LockFile, pinned: Sequence[LockedPackage]) -> Iterator[tuple[LockedWheel, Path]]:
    """Yield each wheel of the folder beside the lock that has a pinned sha256, and where it lies.

    The folder is the one that `lock --with-gate`, `gate add` and `capture` fill: LOCK.wheels. A file with any other
    sha256 is left where it is.
    """
    entries = {digest: package for package in pinned for digest in package.hashes}
    for path in sorted(beside(lock.path, lock.path.stem.removeprefix("pylock.")).glob("*.whl")):
        digest = wheel_sha256(path)
        if package := entries.get(digest):
            yield (
                LockedWheel(
                    name=package.name,
                    version=package.version,
                    filename=path.name,
                    sha256=digest,
                    size=path.stat().st_size,
                    path=path.name,
                ),
                path,
            )
