"""A copy of a venv that shares its files: a second link each, which takes seconds where copying takes minutes.

Code that changes the copy must replace files and never write into them. uv does (it unlinks, then links or
creates), and so do pip and Python's bytecode writer. What is small and might be rewritten in place is copied: the files
at the top (pyvenv.cfg, notes) and the scripts.
"""

import errno
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

from envdoctor.facts.regular_file import open_regular
from envdoctor.swap.store import STORE

# Not ours to link (fs.protected_hardlinks), another file system, too many links, no hard links at all.
_CANNOT_LINK = {errno.EPERM, errno.EACCES, errno.EXDEV, errno.EMLINK, errno.EOPNOTSUPP}


def linked_copy(source: Path, destination: Path) -> None:
    """Make `destination`, which does not exist, a copy of the folder `source`: same links, modes and times."""
    copied = {str(source), str(source / "bin")}

    def put(entry: "os.DirEntry[str]", target: str) -> None:
        own = entry.path.rpartition("/")[0] in copied and entry.is_file(follow_symlinks=False)
        if own or not hard_link(entry.path, target):
            copy_file(entry.path, target)

    copy_tree(str(source), str(destination), put)


def copy_tree(source: str, destination: str, put: Callable[["os.DirEntry[str]", str], None]) -> None:
    """Make `destination`, which does not exist, with the folders of `source`; `put` gets every other entry.

    The store of a venv that is a mount point is left out: the copy is being made in there.
    """
    todo = [(source, destination)]
    made = []
    while todo:
        folder, copy = todo.pop()
        os.mkdir(copy, 0o700)  # noqa: PTH102 - 26,000 files: Path costs more than the calls
        made.append((os.stat(folder), copy))  # noqa: PTH116
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name == STORE:
                    continue
                target = f"{copy}/{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    todo.append((entry.path, target))
                else:
                    put(entry, target)
    # Last, and the innermost first: what is put into a folder changes its time, and a read-only one takes nothing.
    for status, copy in reversed(made):
        os.chmod(copy, stat.S_IMODE(status.st_mode) | stat.S_IRWXU)  # noqa: PTH101
        os.utime(copy, ns=(status.st_atime_ns, status.st_mtime_ns))


def hard_link(source: str, target: str) -> bool:
    """Make `target` a second link of `source`; tell whether the file systems and the kernel allow it."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _CANNOT_LINK:
            raise
        return False
    return True


def copy_file(source: str, target: str) -> None:
    """Copy a file or a link, with its mode and times; holes stay holes: a file of terabytes may hold nothing."""
    status = os.lstat(source)
    if not stat.S_ISREG(status.st_mode) or status.st_blocks * 512 >= status.st_size:
        shutil.copy2(source, target, follow_symlinks=False)
        return
    with open_regular(source) as had, open(target, "xb") as made:  # noqa: PTH123 - as above
        _copy_data(had.fileno(), made.fileno(), status.st_size)
    shutil.copystat(source, target)


def _copy_data(source: int, target: int, size: int) -> None:
    os.ftruncate(target, size)
    at = 0
    while at < size:
        try:
            at = os.lseek(source, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return  # no more data
            raise
        end = os.lseek(source, at, os.SEEK_HOLE)
        # By position: what a write left over is read again.
        while at < end and (piece := os.pread(source, min(end - at, 1 << 20), at)):
            at += os.pwrite(target, piece, at)
