"""Where a bisection works: a folder in the store of the venv, which one bisection has for itself."""

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from envdoctor.errors import RestoreError
from envdoctor.facts.on_failure import on_failure
from envdoctor.model.frozen import frozen
from envdoctor.swap.in_use import users
from envdoctor.swap.store import BackupStore, locked, own_lock, remove_tree

_NAME = "bisect"


@frozen
class WorkFolder:
    """`.envdoctor/<venv name>/bisect`: the journal and the output stay, everything else goes."""

    folder: Path
    venv: Path
    """In whose store it is."""

    @property
    def ends(self) -> Path:
        """Ends that had to be built: a profile's venv."""
        return self.folder / "ends"

    @property
    def caches(self) -> Path:
        """The compile caches of the copy that is being judged."""
        return self.folder / "caches"

    @property
    def log(self) -> Path:
        """What the command printed, run after run."""
        return self.folder / "output.log"

    def copy(self, name: str) -> Path:
        """Return the folder of a copy."""
        return self.folder / "copies" / name

    def sweep(self, *, ends: bool) -> None:
        """Remove the copies, and the ends that were built. Raises RestoreError where something still writes there."""
        for folder in (self.folder / "copies", self.caches, *((self.ends,) if ends else ())):
            try:
                remove_tree(folder)
            except OSError as error:
                if error.errno != errno.ENOTEMPTY:
                    raise
                using = "; ".join(map(str, users(folder, Path("/proc")))) or "a process that could not be determined"
                raise RestoreError(
                    f"{folder} cannot be removed, something writes into it: {using}", "end it, then run this again"
                ) from error

    def keep_ends(self) -> None:
        """Remove the copies; the ends that were built are kept for the next run."""
        self.sweep(ends=False)
        with suppress(OSError):
            self.ends.rmdir()


def place_of(store: BackupStore) -> WorkFolder:
    """Return the folder of a store, which need not exist."""
    return WorkFolder(folder=store.root / _NAME, venv=store.target)


@contextmanager
def work_folder(store: BackupStore) -> Iterator[WorkFolder]:
    """Hold the folder of a store alone, without what a killed run left in it. Raises RestoreError.

    In the end the copies are removed; the ends that were built only when all went well.
    """
    work = place_of(store)
    with locked(store, lambda _: None):
        work.folder.mkdir(exist_ok=True)
    status = work.folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid not in store.owners:
        raise RestoreError(f"{work.folder} is not a real folder of yours", "look at what it is and move it away")
    descriptor = own_lock(work.folder / "lock")
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RestoreError(
                f"another bisect is at work on {store.target}", "wait until it is done, then run this again"
            ) from None
        work.sweep(ends=False)
        work.ends.mkdir(exist_ok=True)
        (work.folder / "copies").mkdir()
        with on_failure(work.keep_ends):
            yield work
        work.sweep(ends=True)
    finally:
        os.close(descriptor)
