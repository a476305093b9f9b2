"""Putting the new venv in the old one's place in one step, and keeping the old one."""

import ctypes
import errno
import os
from pathlib import Path

from envdoctor.errors import RestoreError
from envdoctor.model.frozen import replace
from envdoctor.swap import durable, journal
from envdoctor.swap.in_place import move_all
from envdoctor.swap.journal import JournalEntry
from envdoctor.swap.store import STORE, BackupStore

_AT_FDCWD = -100
_RENAME_NOREPLACE = 1
_RENAME_EXCHANGE = 2
# What a kernel or a file system without the flag answers (renameat2(2)).
_NO_SUCH_FLAG = {errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP}


def put_in_place(store: BackupStore, entry: JournalEntry) -> Path | None:
    """Swap the finished build in and return where the old venv is kept, or None when there was none.

    `entry` is the journal's entry of the build. Raises RestoreError, with everything as it was, when it cannot be done.
    """
    build, target = Path(entry.build), store.target
    if store.inside:
        return _contents(store, entry)
    exists = os.path.lexists(target)
    keep = store.next_generation() if exists else None
    if keep is not None:
        keep.parent.mkdir(parents=True, exist_ok=True)
    journal.write(
        store,
        replace(
            entry,
            phase="swapping",
            keep=str(keep or ""),
            new_inode=durable.inode(build) or 0,
            old_inode=durable.inode(target) or 0,
        ),
    )
    try:
        if keep is None:
            _rename(build, target, _RENAME_NOREPLACE)
        elif _exchange(build, target):
            _put_away(build, target, keep)
        else:
            _two_steps(build, target, keep)
    except OSError as error:
        raise _refused(target, error) from error
    for folder in {target.parent, build.parent, *([keep.parent] if keep else [])}:
        durable.sync_folder(folder)
    journal.clear(store)
    return keep


def _contents(store: BackupStore, entry: JournalEntry) -> Path | None:
    """Swap what is in the two folders, in two steps; on an error the caller's recovery puts the old contents back."""
    exists = any(path.name != STORE for path in store.target.iterdir())
    keep = store.next_generation() if exists else None
    try:
        if keep is not None:
            entry = replace(entry, phase="emptying", keep=str(keep))
            journal.write(store, entry)
            move_all(store.target, keep)
        entry = replace(entry, phase="filling")
        journal.write(store, entry)
        journal.complete(store, entry)
    except OSError as error:
        raise _refused(Path(str(error.filename or store.target)), error) from error
    journal.clear(store)
    return keep


def _put_away(old: Path, target: Path, keep: Path) -> None:
    try:
        old.rename(keep)
    except OSError:
        _exchange(old, target)
        raise


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two folders atomically; False when the kernel or the file system cannot."""
    try:
        _rename(one, other, _RENAME_EXCHANGE)
    except OSError as error:
        if error.errno in _NO_SUCH_FLAG:
            return False
        raise
    return True


def _two_steps(build: Path, target: Path, keep: Path) -> None:
    # For a moment the venv is missing; the journal says so, and the next command completes the swap.
    target.rename(keep)
    try:
        build.rename(target)
    except OSError:
        keep.rename(target)
        raise


def _rename(source: Path, destination: Path, flags: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    call = getattr(libc, "renameat2", None)
    if call is None:
        raise OSError(errno.ENOSYS, "renameat2 is not in this C library")
    if call(_AT_FDCWD, os.fsencode(source), _AT_FDCWD, os.fsencode(destination), ctypes.c_uint(flags)) != 0:
        number = ctypes.get_errno()
        if flags == _RENAME_NOREPLACE and number in _NO_SUCH_FLAG and not os.path.lexists(destination):
            source.rename(destination)
            return
        raise OSError(number, os.strerror(number), str(destination))


def sync_file_system(path: Path) -> None:
    """Write out everything of the file system that holds `path` (syncfs, else sync).

    After a power cut the new venv's files must be as whole as the rename that points at them.
    """
    call = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if call is None:
        os.sync()
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        if call(descriptor) != 0:
            raise RestoreError(
                f"the new venv could not be written out: {os.strerror(ctypes.get_errno())}",
                "check the disk (dmesg); nothing was swapped",
            )
    finally:
        os.close(descriptor)


def _refused(target: Path, error: OSError) -> RestoreError:
    if error.errno == errno.EBUSY:
        return RestoreError(
            f"{target} is a mount point, which cannot be renamed", "restore into another folder: `--venv PATH`"
        )
    if error.errno == errno.EXDEV:
        return RestoreError(
            f"{target} is in a lower layer of an overlay file system, which cannot be renamed",
            "restore into another folder (`--venv PATH`), or restore where the image is built",
        )
    return RestoreError(f"the swap failed: {error.strerror} ({target})", "restore as the owner of the venv's folder")
