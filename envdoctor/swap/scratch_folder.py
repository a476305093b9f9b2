"""Where copies lie that are tried and thrown away: in the store, each in a folder that its command holds a lock of.

Several commands may try something at once, also while another one changes the venv; what is locked, nobody removes.
"""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from envdoctor.swap.store import BackupStore, own_lock, remove_tree

_LOCK = "lock"
_ATTEMPTS = 100


@contextmanager
def scratch_folder(store: BackupStore) -> Iterator[Path]:
    """Give an empty folder in the store; it is gone afterwards, and so is what a killed command left.

    Raises RestoreError for a store that is not ours, OSError where the store cannot be written.
    """
    store.refuse_planted()
    remove_left(store)
    folder, descriptor = _new(store)
    try:
        inner = folder / "copy"
        inner.mkdir()
        yield inner
    finally:
        remove_tree(folder)
        os.close(descriptor)
        for left in (store.scratches, store.root, store.root.parent):
            with suppress(OSError):  # another command works there, or something is kept
                left.rmdir()


def remove_left(store: BackupStore) -> bool:
    """Remove the folders that no living command holds; tell whether there was one."""
    found = False
    for folder in list(store.scratches.iterdir()) if store.scratches.is_dir() else ():
        with suppress(FileNotFoundError, BlockingIOError):  # it is gone, or in use
            descriptor = _hold(folder, fcntl.LOCK_NB) if folder.is_dir() and not folder.is_symlink() else None
            try:
                remove_tree(folder)
                found = True
            finally:
                if descriptor is not None:
                    os.close(descriptor)
    return found


def _new(store: BackupStore) -> tuple[Path, int]:
    for attempt in range(_ATTEMPTS):
        try:
            store.scratches.mkdir(parents=True, exist_ok=True)
            folder = Path(tempfile.mkdtemp(dir=store.scratches, prefix=""))
            return folder, _hold(folder)
        except FileNotFoundError:  # somebody tidied up in the moment before it was held
            if attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError


def _hold(folder: Path, how: int = 0) -> int:
    """Return the descriptor of a folder's lock, held. Raises FileNotFoundError where the folder went meanwhile."""
    path = folder / _LOCK
    with ExitStack() as until_held:
        descriptor = own_lock(path)
        until_held.callback(os.close, descriptor)
        fcntl.flock(descriptor, fcntl.LOCK_EX | how)
        if os.fstat(descriptor).st_nlink == 0:
            raise FileNotFoundError(path)
        until_held.pop_all()
    return descriptor
