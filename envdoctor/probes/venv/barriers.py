"""What keeps this user from reading a file: a folder on its way that may not be searched, or the file."""

import os
import stat
from pathlib import Path

from envdoctor.model.frozen import frozen

_MOST_LINKS = 40  # Linux follows no more


@frozen
class Barrier:
    """A folder or a file without permission for this user."""

    path: str
    """Absolute. No link: where one leads to, if it leads out of the prefix."""
    mode: str
    """"drwx------" as ls shows it; empty where it cannot be looked at."""
    uid: int
    """Its owner; -1 where it cannot be looked at."""
    mine: bool
    """This user may change its mode: the owner is this user, or this user is root."""


def barrier_of(path: str, prefix: Path) -> Barrier | None:
    """Return what bars the way to an absolute path; None where nothing does any more, or it is no permission.

    The way is gone as the kernel goes it, through each link. What is inside of the prefix is named by it as given.
    """
    at, left, links = Path("/"), list(reversed(Path(path).parts[1:])), 0
    while True:
        try:
            status = at.lstat()
            if stat.S_ISLNK(status.st_mode):
                if (links := links + 1) > _MOST_LINKS:
                    return None
                to = Path(os.readlink(at))  # noqa: PTH115 - as it is written
                left += reversed(to.parts[to.is_absolute() :])
                at = Path("/") if to.is_absolute() else at.parent
                continue
        except OSError:
            return None
        if not os.access(at, os.X_OK if stat.S_ISDIR(status.st_mode) else os.R_OK):
            return Barrier(
                path=_named(at, prefix),
                mode=stat.filemode(status.st_mode),
                uid=status.st_uid,
                mine=os.geteuid() in (0, status.st_uid),
            )
        if not left:
            return None
        step = left.pop()
        at = at.parent if step == ".." else at / step


def _named(at: Path, prefix: Path) -> str:
    real = Path(os.path.realpath(prefix))
    return str(prefix / at.relative_to(real)) if at.is_relative_to(real) else str(at)


@frozen
class ClosedFile:
    """A file of a metadata folder that this user may not read."""

    owner: str
    path: str
    """Relative to the prefix, or absolute."""
    barrier: Barrier
