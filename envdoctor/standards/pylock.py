"""A PEP 751 lock as ours: names, versions, markers and the sha256 of every wheel."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from envdoctor.errors import LockError
from envdoctor.standards.lock import Lock, LockedPackage, tags_of
from envdoctor.standards.names import normalized

_SHA256 = re.compile(r"[0-9a-f]{64}")


def is_pylock(filename: str) -> bool:
    """Tell whether PEP 751 gives this file name to a lock: pylock.toml, or pylock.NAME.toml."""
    return filename == "pylock.toml" or (filename.startswith("pylock.") and filename.endswith(".toml"))


def parse(data: Mapping[str, Any], name: str) -> Lock:
    """Return the lock of a PEP 751 document, read and validated by packaging.

    Where its wheels lie is left aside: a hash accepts them from any configured place. Raises LockError for a malformed
    document, and for a package that no wheel of a known sha256 stands for (a source tree, a repository, an archive).
    """
    try:
        from packaging.pylock import Pylock, PylockValidationError  # noqa: PLC0415 - new in packaging 26
    except ImportError:
        raise LockError(
            f"{name}: reading a PEP 751 lock needs packaging 26 or newer", "`pip install -U packaging`"
        ) from None
    try:
        document = Pylock.from_dict(data)
        document.validate()
    except PylockValidationError as error:
        raise LockError(f"{name}: {error}", "correct the file, or lock again") from error
    packages = tuple(_package(entry, name) for entry in document.packages)
    if not packages:
        raise LockError(f"{name}: the lock pins nothing", "lock again")
    return Lock(name=name, packages=packages)


def _package(entry: Any, lock: str) -> LockedPackage:
    if entry.version is None or not entry.wheels:
        raise LockError(
            f"{lock}: {entry.name} is locked without a wheel",
            "only wheels can be verified file by file: build one, put it into a folder of wheels, and lock again",
        )
    digests = [wheel.hashes.get("sha256", "") for wheel in entry.wheels]
    if not all(map(_SHA256.fullmatch, digests)):
        raise LockError(f"{lock}: {entry.name} {entry.version} has a wheel without a sha256", "lock again")
    marker = str(entry.marker or "")
    if any(word in marker for word in ("extras", "dependency_groups")):
        raise LockError(
            f"{lock}: {entry.name} is locked for an extra or a dependency group ({marker})",
            "lock what the profile needs, and nothing that is optional",
        )
    names = {digest: _filename(wheel) for digest, wheel in zip(digests, entry.wheels, strict=True)}
    return LockedPackage(
        name=normalized(entry.name),
        version=str(entry.version),
        hashes=tuple(names),
        marker=marker,
        tags=tags_of(names.values()),
    )


def _filename(wheel: Any) -> str:
    place = wheel.name or wheel.path or unquote(urlsplit(wheel.url or "").path)
    return str(place).rpartition("/")[2]
