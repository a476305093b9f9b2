"""What a restore is doing, on disk before it does it, and the way back after a crash."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from envdoctor.errors import RestoreError
from envdoctor.model.codec import CodecError, decode, encode
from envdoctor.stack.store import Store, remove_tree

Phase = Literal["building", "swapping"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The transaction under way. Folders are told apart by inode: after a swap, paths say nothing."""

    phase: Phase
    profile: str
    build: str
    """Absolute path of the copy."""
    keep: str = ""
    """Where the old venv goes; empty when there was none."""
    new_inode: int = 0
    old_inode: int = 0
    started: str = ""
    """UTC, ISO 8601."""


def write(store: Store, entry: Entry) -> None:
    """Put the entry on disk, durably, in one step."""
    beside = store.journal.with_suffix(".new")
    with beside.open("w", encoding="utf-8") as file:
        json.dump(encode(entry), file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(store.journal)
    sync_folder(store.root)


def read(store: Store) -> Entry | None:
    """Return the transaction under way, or None. Raises RestoreError for a journal that is none."""
    try:
        data = json.loads(store.journal.read_text(encoding="utf-8"))
        entry: Entry = decode(Entry, data)
    except FileNotFoundError:
        return None
    except (ValueError, CodecError, OSError) as error:
        raise RestoreError(
            f"{store.journal} cannot be read ({error}), so it is not known what an earlier restore left",
            f"look at {store.root}: {store.target} is untouched by this command; move the journal away to go on",
        ) from error
    return entry


def clear(store: Store) -> None:
    """End the transaction."""
    store.journal.unlink(missing_ok=True)
    sync_folder(store.root)


def recover(store: Store) -> tuple[str, ...]:
    """Finish or undo what an earlier command left, under the lock; return a sentence for each thing done."""
    entry = read(store)
    told: list[str] = []
    if entry is not None and entry.phase == "swapping":
        told.append(_recover_swap(store, entry))
    elif entry is not None:
        told.append(
            f"an earlier restore ({entry.profile}) was stopped while it built its copy; nothing had been changed"
        )
    if entry is not None:
        _drop_builds(store)
        clear(store)
    elif store.builds.is_dir() and any(store.builds.iterdir()):
        _drop_builds(store)
        told.append("a copy that an earlier restore left unfinished was removed")
    return tuple(told)


def _recover_swap(store: Store, entry: Entry) -> str:
    target, build = store.target, Path(entry.build)
    keep = Path(entry.keep) if entry.keep else None
    if inode(target) == entry.new_inode:
        if keep is not None and inode(build) == entry.old_inode:
            move(build, keep)
        return f"an earlier restore ({entry.profile}) was stopped just after its swap; the new venv is in place" + (
            f" and the old one is kept at {keep}" if keep is not None else ""
        )
    if inode(target) is None and inode(build) == entry.new_inode:
        # Stopped between the two renames of a file system without exchange: the copy was verified, so go forward.
        move(build, target)
        return f"an earlier restore ({entry.profile}) was stopped inside its swap; the swap was completed"
    return f"an earlier restore ({entry.profile}) was stopped just before its swap; the old venv is as it was"


def inode(path: Path) -> int | None:
    """Return the folder's inode number, or None when there is nothing."""
    try:
        return path.lstat().st_ino
    except FileNotFoundError:
        return None


def move(source: Path, destination: Path) -> None:
    """Rename durably within one file system."""
    destination.parent.mkdir(parents=True, exist_ok=True)
    source.rename(destination)
    sync_folder(source.parent)
    sync_folder(destination.parent)


def sync_folder(folder: Path) -> None:
    """Make renames and unlinks in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _drop_builds(store: Store) -> None:
    if store.builds.is_dir():
        for left in store.builds.iterdir():
            remove_tree(left)
