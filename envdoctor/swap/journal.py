"""What a restore is doing, on disk before it does it, and the way back after a crash."""

import json
import stat
from pathlib import Path
from typing import Literal

from envdoctor.errors import RestoreError
from envdoctor.facts.owned import read_of
from envdoctor.facts.whole_file import write_whole
from envdoctor.model.codec import CodecError, decode, encode
from envdoctor.model.frozen import frozen
from envdoctor.standards.bounded_json import loads
from envdoctor.swap.durable import inode, move, sync_folder
from envdoctor.swap.in_place import move_all, remove_empty
from envdoctor.swap.scratch_folder import remove_left
from envdoctor.swap.store import PRUNED, BackupStore, remove_tree

Phase = Literal["building", "swapping", "emptying", "filling"]
"""building: the copy; swapping: two folders change places; emptying, filling: their contents do (swap/in_place.py)."""
_MAXIMUM = 1 << 20
Command = Literal["restore", "repair", "rollback", "bisect", "try", "fix"]


@frozen
class JournalEntry:
    """The transaction under way. Folders are distinguished by inode: after a swap, paths say nothing."""

    phase: Phase
    profile: str
    build: str
    """Absolute path of the copy; of a rollback, the generation that is to come back."""
    keep: str = ""
    """Where the old venv goes; empty when there was none."""
    new_inode: int = 0
    old_inode: int = 0
    started: str = ""
    """UTC, ISO 8601."""
    command: Command = "restore"

    def __str__(self) -> str:
        """Return "restore (21k-toks)"."""
        return f"{self.command} ({self.profile})" if self.profile else self.command


def write(store: BackupStore, entry: JournalEntry) -> None:
    """Put the entry on disk, durably, in one step."""
    write_whole(store.journal, json.dumps(encode(entry), indent=1).encode())
    sync_folder(store.root)


def read(store: BackupStore) -> JournalEntry | None:
    """Return the transaction under way, or None. Raises RestoreError for a journal that is none."""
    try:
        entry: JournalEntry = decode(JournalEntry, loads(read_of(store.journal, store.owners, _MAXIMUM)))
    except FileNotFoundError:
        return None
    except (ValueError, CodecError, OSError, RecursionError) as error:
        raise RestoreError(
            f"{store.journal} cannot be read ({error}), so it is not known what an earlier restore left",
            f"look at {store.root}: {store.target} is untouched by this command; move the journal away to go on",
        ) from error
    if not all(_is_ours(Path(name), store) for name in (entry.build, entry.keep) if name):
        raise RestoreError(
            f"{store.journal} names folders outside {store.root}, so it is not envdoctor's",
            "look at it; move it away to go on",
        )
    return entry


def _is_ours(path: Path, store: BackupStore) -> bool:
    """Tell whether a folder is one of the store's own, and no link: what is in it is moved without a question.

    One that is not there was moved on already, or is yet to be made.
    """
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except ValueError:
        return False  # no name that a file can have
    within = path.parent in (store.builds, store.generations) and path.name not in ("", ".", "..")
    return within and stat.S_ISDIR(status.st_mode) and status.st_uid in store.owners


def clear(store: BackupStore) -> None:
    """End the transaction."""
    store.journal.unlink(missing_ok=True)
    sync_folder(store.root)


def recover(store: BackupStore) -> tuple[str, ...]:
    """Finish or undo what an earlier command left, under the lock; return a sentence for each thing done."""
    entry = read(store)
    told: list[str] = []
    if entry is not None and entry.phase == "swapping":
        told.append(_recover_swap(store, entry))
    elif entry is not None and entry.phase == "emptying":
        move_all(Path(entry.keep), store.target)
        remove_empty(Path(entry.keep))
        told.append(f"an earlier {entry} was stopped while it put the old venv aside; the old venv was put back")
    elif entry is not None and entry.phase == "filling":
        complete(store, entry)
        told.append(f"an earlier {entry} was stopped inside its swap; the swap was completed")
    elif entry is not None:
        told.append(f"an earlier {entry} was stopped while it built its copy; nothing had been changed")
    told += _drop_builds(store, told=entry is not None)
    if entry is not None:
        clear(store)
    return tuple(told)


def complete(store: BackupStore, entry: JournalEntry) -> None:
    """Move what the copy still has into the venv's folder, which can itself not be renamed."""
    move_all(Path(entry.build), store.target)
    remove_empty(Path(entry.build))


def _recover_swap(store: BackupStore, entry: JournalEntry) -> str:
    target, build = store.target, Path(entry.build)
    keep = Path(entry.keep) if entry.keep else None
    if keep is not None and _is_old(store, build, entry):
        move(build, keep if inode(keep) is None else store.next_generation())
    if inode(target) is None and inode(build) == entry.new_inode:
        # Stopped between the two renames of a file system without exchange: the copy was verified, so go forward.
        move(build, target)
        return f"an earlier {entry} was stopped inside its swap; the swap was completed"
    if inode(target) == entry.new_inode:
        return f"an earlier {entry} was stopped just after its swap; the new venv is in place" + (
            f" and the old one is kept at {keep}" if keep is not None else ""
        )
    return f"an earlier {entry} was stopped just before its swap; the old venv is as it was"


def _is_old(store: BackupStore, build: Path, entry: JournalEntry) -> bool:
    """Tell whether the copy's place holds the old venv, as it does after the exchange.

    A venv that is neither (the folder was moved to another disk meanwhile) may be the old one, so it counts as that.
    """
    found = inode(build)
    return found == entry.old_inode or (build.parent == store.builds and found not in (None, entry.new_inode))


def _drop_builds(store: BackupStore, *, told: bool) -> list[str]:
    """Remove what was left under construction or half pruned; say so unless the journal `told` of it."""
    tried = remove_left(store)
    left = sorted(store.builds.iterdir()) if store.builds.is_dir() else []
    for path in left:
        remove_tree(path)
    pruned = [path for path in left if path.name.startswith(PRUNED)]
    said = [
        f"the rest of backup {path.name.removeprefix(PRUNED)}, which was being pruned, was removed" for path in pruned
    ]
    if (tried or len(left) > len(pruned)) and not told:
        said.append("a copy that an earlier command left unfinished was removed")
    return said
