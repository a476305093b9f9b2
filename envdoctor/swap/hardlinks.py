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

from envdoctor.swap.store import STORE

# Not ours to link (fs.protected_hardlinks), another file system, too many links, no hard links at all.
_CANNOT_LINK = {errno.EPERM, errno.EACCES, errno.EXDEV, errno.EMLINK, errno.EOPNOTSUPP}


def linked_copy(source: Path, destination: Path) -> None:
    """Make `destination`, which does not exist, a copy of the folder `source`: same links, modes and times."""
    copied = {str(source), str(source / "bin")}

    def put(entry: "os.DirEntry[str]", target: str) -> None:
        if entry.path.rpartition("/")[0] in copied and entry.is_file(follow_symlinks=False):
            shutil.copy2(entry.path, target)
        elif not hard_link(entry.path, target):
            shutil.copy2(entry.path, target, follow_symlinks=False)

    copy_tree(str(source), str(destination), put)


def copy_tree(source: str, destination: str, put: Callable[["os.DirEntry[str]", str], None]) -> None:
    """Make `destination`, which does not exist, with the folders of `source`; `put` gets every other entry.

    The store of a venv that is a mount point is left out: the copy is being made in there.
    """
    os.mkdir(destination, 0o700)  # noqa: PTH102 - 26,000 files: Path costs more than the calls
    with os.scandir(source) as entries:
        for entry in entries:
            if entry.name == STORE:
                continue
            target = f"{destination}/{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                copy_tree(entry.path, target, put)
            else:
                put(entry, target)
    status = os.stat(source)  # noqa: PTH116
    # Last: a read-only folder could not be filled.
    os.chmod(destination, stat.S_IMODE(status.st_mode) | stat.S_IRWXU)  # noqa: PTH101
    os.utime(destination, ns=(status.st_atime_ns, status.st_mtime_ns))


def hard_link(source: str, target: str) -> bool:
    """Make `target` a second link of `source`; tell whether the file systems and the kernel allow it."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _CANNOT_LINK:
            raise
        return False
    return True
