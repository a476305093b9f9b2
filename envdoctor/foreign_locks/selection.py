"""What a lock's document means for one interpreter: wheels by hash, and what has to be made into a wheel first."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from packaging.pylock import (
    Package,
    PackageArchive,
    PackageDirectory,
    PackageSdist,
    PackageVcs,
    PackageWheel,
    Pylock,
    PylockSelectError,
    PylockValidationError,
)
from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename
from packaging.version import InvalidVersion

from envdoctor.errors import LockError
from envdoctor.foreign_locks.exporters import LockExport
from envdoctor.foreign_locks.formats import LockFile
from envdoctor.model.frozen import frozen
from envdoctor.standards.lock import LockedPackage, tags_of
from envdoctor.wheels.index import File
from envdoctor.wheels.locking import best_hashes
from envdoctor.wheels.urls import shown
from envdoctor.wheels.wheel_tags import places

_Source = PackageArchive | PackageDirectory | PackageSdist | PackageVcs


@frozen
class SourcePackage:
    """A distribution that the lock names by where its source is; a wheel has to be made of it."""

    name: str
    version: str
    """Empty where the lock does not state it, as for a folder."""
    origin: str
    """"the folder /project/member", "git https://… at 0123abcd", "the sdist x-1.0.tar.gz"."""
    entry: Mapping[str, Any]
    """Its entry for a PEP 751 document, every path absolute."""


@frozen
class Selection:
    """What is installed for one interpreter."""

    pinned: tuple[LockedPackage, ...]
    """Each with the sha256 of every wheel that fits."""
    sources: tuple[SourcePackage, ...]
    files: Mapping[str, tuple[File, ...]]
    """Name -> the wheels that fit, where the lock says they lie."""


def select(lock: LockFile, found: LockExport, markers: Mapping[str, str], tags: Sequence[Tag]) -> Selection:
    """Return what packaging selects from the document for an environment. Raises LockError.

    markers: PEP 508 names -> values. tags: what the interpreter supports, best first.
    """
    if found.pins is not None:
        pinned = tuple(package for _, package in sorted(found.pins.select(markers).items()))
        return Selection(pinned=pinned, sources=(), files={})
    try:
        document = Pylock.from_dict(found.data)
        document.validate()
        chosen = list(_chosen(document, lock, found, markers, tags))
    except PylockValidationError as error:
        raise LockError(f"{lock.path}: {error}", "lock again") from error
    except PylockSelectError as error:
        raise LockError(
            f"{lock.path} does not fit CPython {markers['python_full_version']} on {markers['platform_machine']}: "
            f"{error}",
            "name an interpreter or a venv that it was locked for, and extras and groups that it has",
        ) from error
    if not chosen:
        raise LockError(f"{lock.path}: the lock pins nothing", "lock again")
    raw = {id(package): entry for package, entry in zip(document.packages, found.data["packages"], strict=True)}
    order = places(tags)
    files: dict[str, tuple[File, ...]] = {}
    wheels: list[LockedPackage] = []
    sources: list[SourcePackage] = []
    for package, what in sorted(chosen, key=lambda pair: pair[0].name):
        if isinstance(what, PackageWheel):
            files[package.name] = tuple(_files(package, lock))
            wheels.append(_pinned(package, files[package.name], order, lock))
        else:
            sources.append(_source(package, what, raw[id(package)], lock.folder))
    return Selection(pinned=tuple(wheels), sources=tuple(sources), files=files)


def _chosen(
    document: Pylock, lock: LockFile, found: LockExport, markers: Mapping[str, str], tags: Sequence[Tag]
) -> Iterator[tuple[Package, Any]]:
    groups = [*(document.default_groups or ()), *lock.groups] if found.selects and lock.groups else None
    return document.select(
        environment=dict(markers),  # type: ignore[arg-type]
        tags=tags,
        extras=lock.extras if found.selects else None,
        dependency_groups=groups,
    )


def _files(package: Package, lock: LockFile) -> Iterator[File]:
    for wheel in package.wheels or ():
        digest = wheel.hashes.get("sha256", "")
        if not digest:
            raise LockError(f"{lock.path}: {wheel.filename} has no sha256", "lock again")
        url = wheel.url or Path(os.path.normpath(lock.folder / str(wheel.path))).as_uri()
        yield File(filename=wheel.filename, url=url, sha256=digest, size=wheel.size)


def _pinned(package: Package, files: Sequence[File], order: Mapping[Tag, int], lock: LockFile) -> LockedPackage:
    if package.version is None:
        raise LockError(f"{lock.path}: {package.name} has wheels and no version", "lock again")
    try:
        hashes = best_hashes(((file.filename, file.sha256) for file in files), [order])
    except (InvalidWheelFilename, InvalidVersion) as error:
        raise LockError(f"{lock.path}: {error}", "lock again") from error
    names = {file.sha256: file.filename for file in files}
    kept = tuple(dict.fromkeys(hashes))
    return LockedPackage(
        name=package.name, version=str(package.version), hashes=kept, tags=tags_of(names[digest] for digest in kept)
    )


def _source(package: Package, what: _Source, raw: Mapping[str, Any], folder: Path) -> SourcePackage:
    entry = {key: raw[key] for key in ("name", "version", "vcs", "directory", "archive", "sdist") if key in raw}
    for key in ("vcs", "directory", "archive", "sdist"):
        if "path" in entry.get(key, {}):
            entry[key] = {**entry[key], "path": os.path.normpath(folder / entry[key]["path"])}
    if "directory" in entry:
        entry["directory"] = {**entry["directory"], "editable": False}
    version = str(package.version) if package.version is not None else ""
    return SourcePackage(name=package.name, version=version, origin=_origin(what, folder), entry=entry)


def _origin(what: _Source, folder: Path) -> str:
    if isinstance(what, PackageDirectory):
        path = Path(what.path, what.subdirectory or "")
        return f"the folder {os.path.normpath(folder / path)}"
    if isinstance(what, PackageVcs):
        return f"{what.type} {shown(what.url) if what.url else what.path} at {what.commit_id[:12]}"
    place = shown(what.url) if what.url else os.path.normpath(folder / str(what.path))
    return f"the {'sdist' if isinstance(what, PackageSdist) else 'file'} {place}"
