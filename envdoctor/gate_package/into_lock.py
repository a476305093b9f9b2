"""The gate's wheel beside a lock, and the gate in the lock."""

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from envdoctor.errors import LockError
from envdoctor.facts.whole_file import write_whole
from envdoctor.gate_package.wheel import NAME, gate_wheel
from envdoctor.standards.lock import Lock, LockedPackage
from envdoctor.wheels import pylock_text
from envdoctor.wheels.locking import head_of, text_of
from envdoctor.wheels.pylock_text import LockedWheel, package_of


def keep_wheel(folder: Path) -> LockedWheel:
    """Write the gate's wheel into `folder`, which a restore of the lock beside it looks into; return its entry.

    Wheels of other versions of the gate go: the lock that named them is about to be replaced. Raises LockError when
    the folder cannot be written.
    """
    wheel = gate_wheel()
    path = folder / wheel.filename
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(path, wheel.content)
        for other in folder.glob(f"{NAME.replace('-', '_')}-*.whl"):
            if other != path:
                other.unlink()
    except OSError as error:
        raise LockError(f"{path} cannot be written: {error.strerror}", "check the folder's permissions") from error
    return LockedWheel(
        name=NAME,
        version=wheel.version,
        filename=wheel.filename,
        sha256=wheel.sha256,
        size=len(wheel.content),
        path=f"{folder.name}/{wheel.filename}",
    )


def among(wheels: Iterable[LockedWheel], gate: LockedWheel) -> tuple[LockedWheel, ...]:
    """Return the wheels with this gate in place of any other, by name."""
    return tuple(sorted((*(wheel for wheel in wheels if wheel.name != NAME), gate), key=lambda wheel: wheel.name))


def locked(lock: Lock, gate: LockedWheel) -> Lock:
    """Return the lock with this gate in place of any other, by name."""
    entry = LockedPackage(name=NAME, version=gate.version, hashes=(gate.sha256,))
    others = [package for package in lock.packages if package.name != NAME]
    return Lock(name=lock.name, packages=tuple(sorted((*others, entry), key=lambda one: (one.name, one.version))))


def document_with(document: Mapping[str, Any], gate: LockedWheel) -> dict[str, Any]:
    """Return a PEP 751 document with this gate in place of any other, by name."""
    others = [package for package in document["packages"] if package["name"] != NAME]
    return {**document, "packages": sorted((*others, package_of(gate)), key=lambda package: str(package["name"]))}


def relock(path: Path, lock: Lock, gate: LockedWheel) -> None:
    """Replace a lock by one that has this gate, in the form it has. Raises LockError when it cannot be written."""
    if path.suffix == ".toml":
        document = tomllib.loads(path.read_text(encoding="utf-8"))
        text = pylock_text.text_of(document_with(document, gate), head_of(path))
    else:
        text = text_of(locked(lock, gate), head_of(path))
    try:
        write_whole(path, text.encode())
    except OSError as error:
        raise LockError(f"{path} cannot be written: {error.strerror}", "check the folder's permissions") from error
