"""What keeps this user from reading a file: a folder on its way that may not be searched, or the file."""

import errno
import os
import stat
from pathlib import Path

from envdoctor.model.frozen import frozen


@frozen
class Barrier:
    """A folder or a file without permission for this user."""

    path: str
    """Absolute."""
    mode: str
    """"drwx------" as ls shows it; empty where it cannot be looked at."""
    uid: int
    """Its owner; -1 where it cannot be looked at."""
    mine: bool
    """This user may change its mode: the owner is this user, or this user is root."""


def barrier_of(path: str) -> Barrier | None:
    """Return what bars the way to an absolute path; None where nothing does any more, or it is no permission."""
    for at in (*reversed(Path(path).parents), Path(path)):
        try:
            status = at.lstat()
        except OSError:
            return None
        if stat.S_ISLNK(status.st_mode) and _leads_nowhere(at):
            return None
        wanted = os.X_OK if stat.S_ISDIR(status.st_mode) else os.R_OK
        if not os.access(at, wanted):
            return Barrier(
                path=str(at),
                mode=stat.filemode(status.st_mode),
                uid=status.st_uid,
                mine=os.geteuid() in (0, status.st_uid),
            )
    return None


def _leads_nowhere(link: Path) -> bool:
    """Tell a link to nothing, which is missing, from one whose end may not be looked at."""
    try:
        link.stat()
    except OSError as error:
        return error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
    return False


@frozen
class ClosedFile:
    """A file of a metadata folder that this user may not read."""

    owner: str
    path: str
    """Relative to the prefix, or absolute."""
    barrier: Barrier
