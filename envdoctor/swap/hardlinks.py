"""A copy of a venv that shares its files: a second link each, which takes seconds where copying takes minutes.

Code that changes the copy must replace files and never write into them. uv does (it unlinks, then links or
creates), and so do pip and Python's bytecode writer. What is small and might be rewritten in place is copied: the files
at the top (pyvenv.cfg, notes) and the scripts.
"""

import errno
import os
import shutil
import stat
from pathlib import Path

from envdoctor.swap.store import STORE

# Not ours to link (fs.protected_hardlinks), another file system, too many links, no hard links at all.
_CANNOT_LINK = {errno.EPERM, errno.EACCES, errno.EXDEV, errno.EMLINK, errno.EOPNOTSUPP}


def linked_copy(source: Path, destination: Path) -> None:
    """Make `destination`, which does not exist, a copy of the folder `source`: same links, modes and times."""
    _copy(str(source), str(destination), copied=True)
    if (source / "bin").is_dir():
        shutil.rmtree(destination / "bin")
        _copy(str(source / "bin"), str(destination / "bin"), copied=True)


def _copy(source: str, destination: str, *, copied: bool) -> None:
    os.mkdir(destination)  # noqa: PTH102 - 26,000 files: Path costs more than the calls
    with os.scandir(source) as entries:
        for entry in entries:
            if entry.name == STORE:
                continue  # of a mount point: the copy is being made in there
            target = f"{destination}/{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                _copy(entry.path, target, copied=False)
            elif copied and entry.is_file(follow_symlinks=False):
                shutil.copy2(entry.path, target)
            else:
                _link(entry, target)
    status = os.stat(source)  # noqa: PTH116
    # Last: a read-only folder could not be filled.
    os.chmod(destination, stat.S_IMODE(status.st_mode) | stat.S_IRWXU)  # noqa: PTH101
    os.utime(destination, ns=(status.st_atime_ns, status.st_mtime_ns))


def _link(entry: "os.DirEntry[str]", target: str) -> None:
    try:
        os.link(entry.path, target, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _CANNOT_LINK:
            raise
        shutil.copy2(entry.path, target, follow_symlinks=False)
