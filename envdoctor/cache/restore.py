"""Putting a snapshot's files into the caches of an environment: verify all of it, then merge file by file.

Everything is unpacked into a staging folder inside each root first. Only when the last byte has been checked do files
move, by link or rename on one filesystem: a process that reads meanwhile sees an old file, or a new one, never a part.
Several processes may do the same at once; each one's files are whole, and the second one finds them there.
"""

import contextlib
import filecmp
import hashlib
import json
import os
import shutil
import stat
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from envdoctor.cache.archive import Reader, distinct
from envdoctor.cache.manifest import Manifest, StoredFile
from envdoctor.cache.own_folder import STAGING, own_folder, remove_abandoned
from envdoctor.catalog.cache_kinds import kind_of
from envdoctor.errors import CacheError
from envdoctor.facts.folders import remove_folder
from envdoctor.facts.on_failure import on_failure
from envdoctor.facts.owned import adder_of
from envdoctor.facts.regular_file import open_regular, read_regular
from envdoctor.model.frozen import frozen, replace
from envdoctor.probes.caches.entry_damage import damage
from envdoctor.standards.bounded_json import loads

Outcome = Literal["added", "replaced", "present", "newer kept"]
# Left free on the filesystem after everything is unpacked, for whoever else writes there.
_MAXIMUM_GROUP = 4 << 20
_SPARE_BYTES = 64 << 20


@frozen
class Merged:
    """What a restore did."""

    outcomes: Mapping[Outcome, int]
    relocated: int
    """Group files of Triton in which the folder they name was changed to the present one."""
    manifest: Manifest
    """The snapshot's manifest as it is true of these folders: without files that were kept because they are newer."""

    def count(self, outcome: Outcome) -> int:
        """Return how many files ended so."""
        return self.outcomes.get(outcome, 0)


def restore(reader: Reader, manifest: Manifest, folders: Mapping[str, Path]) -> Merged:
    """Merge a snapshot, whose manifest was just read from `reader`, into the roots at `folders`.

    Raises CacheError, with nothing merged, when the archive is not what its manifest says or does not fit on the disk.
    """
    absent = {file.root for file in manifest.files} - folders.keys()
    if absent:
        raise CacheError(f"no folder is known for {', '.join(sorted(absent))}", "")
    _require_owned(manifest, folders)
    _require_room(manifest, folders)
    _require_inside(manifest, folders)
    if all(_is_there(file, manifest, folders) for file in manifest.files):
        # Another rank was faster; unpacking all of it only to find that out would keep the disk busy for nothing.
        return Merged(
            outcomes={"present": len(manifest.files)},
            relocated=0,
            manifest=_as_it_lies(manifest, [_as_here(file, folders) for file in manifest.files], folders),
        )
    with contextlib.ExitStack() as stack:
        staged = stack.enter_context(_staging(manifest, folders))
        contents = _unpack(reader, manifest, staged)
        uses = Counter(file.sha256 for file in manifest.files)
        relocated: set[str] = set()
        outcomes: dict[Outcome, int] = {}
        here: list[StoredFile] = []
        undo = stack.enter_context(_all_or_none())
        for number, listed in enumerate(manifest.files):
            spare = staged[listed.root] / f"spare-{number}"
            uses[listed.sha256] -= 1
            source, file = contents[listed.sha256], listed
            if moved := _relocated_group(source, file, manifest, folders):
                spare.write_bytes(moved)
                source = spare
                file = replace(file, size=len(moved), sha256=hashlib.sha256(moved).hexdigest())
                relocated.add(f"{file.root}/{file.path}")
            elif uses[file.sha256] or source.parent != spare.parent:
                # Somebody else still needs this content, or it was unpacked on another root's filesystem.
                source = Path(shutil.copyfile(source, spare))
            outcome = _install_or_say(source, file, folders[file.root], undo)
            outcomes[outcome] = outcomes.get(outcome, 0) + 1
            if outcome != "newer kept":
                here.append(file)
    return Merged(outcomes=outcomes, relocated=len(relocated), manifest=_as_it_lies(manifest, here, folders))


@frozen
class _Change:
    """One file of the cache that was made, or replaced."""

    target: Path
    former: Path | None
    """Where the file that was there is now; None when there was none."""


@contextlib.contextmanager
def _all_or_none() -> Iterator[list[_Change]]:
    """Give a list of what was changed; an error in the block undoes it, the last change first."""
    done: list[_Change] = []
    with on_failure(lambda: _undo(done)):
        yield done


def _undo(done: Sequence[_Change]) -> None:
    for change in reversed(done):
        # What another process has taken away or made again meanwhile is its own.
        with contextlib.suppress(OSError):
            if change.former is None:
                change.target.unlink()
            else:
                change.former.replace(change.target)


def _require_owned(manifest: Manifest, folders: Mapping[str, Path]) -> None:
    """Refuse a cache that somebody else can write: the label would vouch for what they put there."""
    for root in sorted({file.root for file in manifest.files}):
        if folders[root].is_dir() and (stranger := adder_of(folders[root])):
            raise CacheError(
                f"{folders[root]} {stranger}, who can put any code there; nothing was merged",
                "name a folder of your own: `export TORCHINDUCTOR_CACHE_DIR=FOLDER TRITON_CACHE_DIR=FOLDER`",
            )


def _is_there(file: StoredFile, manifest: Manifest, folders: Mapping[str, Path]) -> bool:
    """Say whether the file is there already, whole; a group file that was moved need only be whole."""
    path = folders[file.root] / file.path
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            return False
        if _names_files(file) and manifest.folders.get(file.root) != str(folders[file.root]):
            return not damage(folders[file.root] / file.path, kind_of(file.root, file.path))
        return status.st_size == file.size and _sha256(path) == file.sha256
    except OSError:
        return False


def _as_here(file: StoredFile, folders: Mapping[str, Path]) -> StoredFile:
    if not _names_files(file):
        return file
    path = folders[file.root] / file.path
    return replace(file, size=path.stat().st_size, sha256=_sha256(path))


def _sha256(path: Path) -> str:
    with open_regular(path) as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _names_files(file: StoredFile) -> bool:
    """Say whether it is a group file of Triton, which names its kernel's files by absolute path."""
    return file.path.rpartition("/")[2].startswith("__grp__")


def _as_it_lies(manifest: Manifest, files: list[StoredFile], folders: Mapping[str, Path]) -> Manifest:
    moved = {"cache.folder": "inductor", "triton.folder": "triton"}
    key = tuple(
        replace(part, value=str(folders[moved[part.name]])) if moved.get(part.name) in folders else part
        for part in manifest.key
    )
    now = {kind: str(path) for kind, path in folders.items()}
    return replace(manifest, files=tuple(files), folders=now, key=key)


def _require_room(manifest: Manifest, folders: Mapping[str, Path]) -> None:
    for root in {file.root for file in manifest.files}:
        needed = sum(file.size for file in manifest.files if file.root == root)
        folder = folders[root]
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            free = shutil.disk_usage(folder).free
        except OSError as error:
            raise CacheError(
                f"{folder}: {error.strerror}", "name another folder for the cache, and export it"
            ) from error
        if free < needed + _SPARE_BYTES:
            raise CacheError(
                f"{folder} has {free / 1e6:.0f} MB free, the snapshot unpacks to {needed / 1e6:.0f} MB; nothing was "
                "taken from it",
                "free some space: `envdoctor cache gc --dry-run`",
            )


@contextlib.contextmanager
def _staging(manifest: Manifest, folders: Mapping[str, Path]) -> Iterator[Mapping[str, Path]]:
    staged: dict[str, Path] = {}
    try:
        for root in sorted({file.root for file in manifest.files}):
            staged[root] = _staging_folder(folders[root])
        yield staged
    finally:
        for folder in staged.values():
            with contextlib.suppress(OSError):
                remove_folder(folder)


def _staging_folder(root: Path) -> Path:
    own = own_folder(root, make=True)
    remove_abandoned(own)
    try:
        return Path(tempfile.mkdtemp(prefix=f"{STAGING}{os.getpid()}-", dir=own))
    except OSError as error:
        raise CacheError(
            f"{error.filename}: {error.strerror}; nothing was merged", "restore as the cache's owner"
        ) from error


def _unpack(reader: Reader, manifest: Manifest, staged: Mapping[str, Path]) -> Mapping[str, Path]:
    """Write each content once and return sha256 -> where it lies."""
    contents: dict[str, Path] = {}
    for number, file in enumerate(distinct(manifest)):
        path = staged[file.root] / str(number)
        try:
            with path.open("xb") as out:
                reader.content(file, out)
        except OSError as error:
            raise CacheError(f"{path}: {error.strerror}; nothing was merged", "free some space") from error
        contents[file.sha256] = path
    reader.end()
    return contents


def _relocated_group(source: Path, file: StoredFile, manifest: Manifest, folders: Mapping[str, Path]) -> bytes:
    """Return a Triton group file with the paths of this machine, or nothing when it needs no change.

    `__grp__NAME.json` names its kernel's files by absolute path (FileCacheManager.put_group): at another folder the
    kernel would be compiled again. Inductor's own bundles replace the folder in the same way (triton_bundler.py).
    """
    if not _names_files(file):
        return b""
    old, new = manifest.folders.get(file.root, ""), str(folders[file.root])
    if not old or old == new:
        return b""
    try:
        group = loads(read_regular(source, _MAXIMUM_GROUP))
        children = group["child_paths"]
        group["child_paths"] = {name: _moved(path, old, new) for name, path in children.items()}
    except (ValueError, TypeError, KeyError, AttributeError):
        return b""
    return json.dumps(group).encode()


def _moved(path: str, old: str, new: str) -> str:
    return new + path.removeprefix(old) if path.startswith(old + "/") else path


def _install_or_say(source: Path, file: StoredFile, folder: Path, undo: list[_Change]) -> Outcome:
    try:
        return _install(source, file, folder, undo)
    except OSError as error:
        raise CacheError(
            f"{error.filename or folder / file.path}: {error.strerror}; nothing was merged",
            "restore as the cache's owner; entries that are there already are left as they are",
        ) from error


def _install(source: Path, file: StoredFile, folder: Path, undo: list[_Change]) -> Outcome:
    target = folder / file.path
    before = _present(target, file, source, folder)
    if before in ("present", "newer kept"):
        return before
    target.parent.mkdir(parents=True, exist_ok=True)
    source.chmod(file.mode & 0o755 | 0o600)
    os.utime(source, ns=(file.modified, file.modified))
    if before == "added" and _link_new(source, target):
        undo.append(_Change(target=target, former=None))
        return "added"
    former = source.with_name(f"{source.name}.former")
    # The name always means one whole file, the former one or the new one: it is linked, never moved, first.
    if before == "replaced" and _link(target, former):
        undo.append(_Change(target=target, former=former))
    elif not os.path.lexists(target):
        undo.append(_Change(target=target, former=None))
    source.replace(target)
    return "replaced" if before == "replaced" else "added"


def _present(target: Path, file: StoredFile, source: Path, folder: Path) -> Outcome:
    """Say what should happen at the target: "added" when nothing is there, "replaced" for something older or broken."""
    try:
        status = target.lstat()
        if not stat.S_ISREG(status.st_mode):
            return "replaced"
        same = filecmp.cmp(source, target, shallow=False)
    except FileNotFoundError:
        return "added"
    if same:
        return "present"
    if status.st_mtime_ns > file.modified and not damage(folder / file.path, kind_of(file.root, file.path)):
        return "newer kept"
    return "replaced"


def _require_inside(manifest: Manifest, folders: Mapping[str, Path]) -> None:
    """Refuse a cache in which a link leads elsewhere on the way to a file that would be written."""
    inside = {root: os.path.realpath(folder) for root, folder in folders.items()}
    checked: set[Path] = set()
    for file in manifest.files:
        target = folders[file.root] / file.path
        if target.is_dir() and not target.is_symlink():
            raise CacheError(f"{target}: a folder where the snapshot has a file; nothing was merged", "move it away")
        for path in (target, *target.parents):
            if path in checked or path == folders[file.root]:
                break
            checked.add(path)
            if path != target and os.path.lexists(path) and not path.is_dir():
                raise CacheError(f"{path}: a file where the snapshot has a folder; nothing was merged", "move it away")
            if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(inside[file.root]):
                raise CacheError(f"{path}: a link that leads out of the cache; nothing was merged", "remove the link")


def _link_new(source: Path, target: Path) -> bool:
    """Give the file its name only if nobody has it yet; False when somebody was faster or links are not supported."""
    if not _link(source, target):
        return False
    source.unlink()
    return True


def _link(source: Path, target: Path) -> bool:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        return False
    return True
