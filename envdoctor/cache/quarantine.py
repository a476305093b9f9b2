"""Taking entries out of a cache so that they can be put back.

What is removed moves into `.envdoctor/quarantine/STAMP` of its own root: one rename a file, on one filesystem, with a
record of what was taken and why. The space is freed when the quarantine is purged.
"""

import json
import os
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from envdoctor.cache.layout import Root
from envdoctor.cache.own_folder import own_folder, require_real
from envdoctor.errors import CacheError
from envdoctor.facts.folders import remove_folder
from envdoctor.facts.owned import stranger_of
from envdoctor.facts.regular_file import read_regular
from envdoctor.model.frozen import frozen
from envdoctor.standards.bounded_json import loads

_FOLDER = "quarantine"
_MAXIMUM, _MAXIMUM_FILES = 32 << 20, 500_000
_RECORD = "record.json"
_STAMP = "%Y%m%dT%H%M%SZ"


@frozen
class Quarantine:
    """What one clean-up took out of one root."""

    stamp: str
    """When, as 20261129T101500Z with the process id behind it."""
    root: str
    """Kind of the root."""
    folder: Path
    origin: Path
    """The root's folder, where the files go back to."""
    reason: str
    files: tuple[str, ...]
    """Paths below the root."""
    bytes: int

    @property
    def has_missing(self) -> bool:
        """Tell whether it holds a file that the cache has none of: what can be put back."""
        return any((self.folder / "files" / path).exists() and not (self.origin / path).exists() for path in self.files)

    @property
    def seconds(self) -> float:
        """Return when it was made, in seconds since the epoch."""
        return datetime.strptime(self.stamp.split("-")[0], _STAMP).replace(tzinfo=UTC).timestamp()


def take(root: Root, paths: Sequence[str], reason: str, now: datetime) -> Quarantine | None:
    """Move files of a root into a new quarantine, in the given order; None when all of them are gone already."""
    stamp = f"{now.strftime(_STAMP)}-{os.getpid()}"
    folder = own_folder(root.path, make=True) / _FOLDER / stamp
    taken: list[str] = []
    size = 0
    try:
        folder.parent.mkdir(exist_ok=True, mode=0o700)
        folder.mkdir(mode=0o700)
        # Written first: a process killed in the middle leaves a quarantine that undo understands.
        _write_record(folder, root, reason, paths)
        for path in paths:
            moved = _move(root.path / path, folder / "files" / path)
            taken += [path] if moved is not None else []
            size += moved or 0
    except OSError as error:
        raise CacheError(
            f"{error.filename or folder}: {error.strerror}", "`envdoctor cache undo` puts back what moved"
        ) from error
    _remove_empty(root.path, paths)
    if not taken:
        remove_folder(folder)
        return None
    return Quarantine(
        stamp=stamp,
        root=root.kind,
        folder=folder,
        origin=root.path,
        reason=reason,
        files=tuple(taken),
        bytes=size,
    )


def listed(roots: Iterable[Root]) -> tuple[Quarantine, ...]:
    """Return the quarantines there are, the newest first."""
    found = [quarantine for root in roots for folder in _folder(root).glob("*") if (quarantine := _read(root, folder))]
    return tuple(sorted(found, key=lambda quarantine: quarantine.stamp, reverse=True))


def _folder(root: Root) -> Path:
    folder = own_folder(root.path) / _FOLDER
    if folder.is_symlink():
        raise CacheError(f"{folder} is a link, so nothing is taken from it", "move it away")
    return folder


def put_back(quarantine: Quarantine) -> tuple[int, int]:
    """Move its files back; return (put back, left out because the cache has one of that name again).

    What is left out stays in the quarantine.
    """
    back = present = 0
    for path in quarantine.files:
        # Before the first one moves: a record or a folder of the cache may have been made to lead elsewhere.
        require_real(quarantine.origin, path)
        require_real(quarantine.folder, f"files/{path}")
    try:
        # Kernels were taken last and come back first: a graph must not be there before them.
        for path in reversed(quarantine.files):
            source, target = quarantine.folder / "files" / path, quarantine.origin / path
            if not source.exists():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            if _moved_back(source, target):
                back += 1
            else:
                present += 1
        if not present:
            remove_folder(quarantine.folder)
    except OSError as error:
        raise CacheError(f"{error.filename}: {error.strerror}", "run it again as the cache's owner") from error
    return back, present


def _moved_back(source: Path, target: Path) -> bool:
    """Give a file its name back unless there is one of that name, which a job may write at any time."""
    try:
        os.link(source, target, follow_symlinks=False)
    except FileExistsError:
        return False
    except OSError:
        # A filesystem without hard links.
        if os.path.lexists(target):
            return False
        source.rename(target)
    else:
        source.unlink()
    return True


def purge(quarantine: Quarantine) -> None:
    """Delete a quarantine for good."""
    try:
        remove_folder(quarantine.folder)
    except OSError as error:
        raise CacheError(f"{error.filename}: {error.strerror}", "run it again as the cache's owner") from error


def _write_record(folder: Path, root: Root, reason: str, paths: Sequence[str]) -> None:
    record = {"root": root.kind, "origin": str(root.path), "reason": reason, "files": list(paths)}
    (folder / _RECORD).write_text(json.dumps(record))


def _read(root: Root, folder: Path) -> Quarantine | None:
    try:
        record = loads(read_regular(folder / _RECORD, _MAXIMUM), _MAXIMUM_FILES)
        files = tuple(str(path) for path in record["files"])
        if folder.is_symlink() or stranger_of(folder):
            return None
        # A record is in a folder that others may write: only what stays inside the root is believed.
        if any(path.startswith("/") or ".." in path.split("/") for path in files):
            raise CacheError(f"{folder / _RECORD}: it names files outside the cache", "remove that folder by hand")
        sizes = [(folder / "files" / path).stat().st_size for path in files if (folder / "files" / path).is_file()]
        return Quarantine(
            stamp=folder.name,
            root=root.kind,
            folder=folder,
            origin=root.path,
            reason=str(record["reason"]),
            files=files,
            bytes=sum(sizes),
        )
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None


def _move(source: Path, target: Path) -> int | None:
    try:
        size = source.stat().st_size
        target.parent.mkdir(parents=True, exist_ok=True)
        source.rename(target)
    except FileNotFoundError:
        return None
    return size


def _remove_empty(root: Path, paths: Sequence[str]) -> None:
    """Remove the folders that are empty now: an empty key folder makes torch look for an entry in vain."""
    folders = {
        parent for path in paths for parent in (root / path).parents if parent.is_relative_to(root) and parent != root
    }
    for folder in sorted(folders, key=lambda path: len(path.parts), reverse=True):
        try:
            folder.rmdir()
        except OSError:
            # Not empty, or somebody made it again.
            continue
