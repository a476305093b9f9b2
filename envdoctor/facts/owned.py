"""Whether a file was made by somebody who may decide what this user runs: the user, or root."""

import errno
import os
import stat
from pathlib import Path

from envdoctor.facts.regular_file import read_with_status


def stranger_of(path: Path, trusted: frozenset[int] = frozenset()) -> str:
    """Say who else than this user and root can have written a file or a folder; empty for nobody.

    trusted: further owners. A group may write: projects are shared so. A folder that everybody may write is
    nobody's, unless each may remove only their own there (the sticky bit of /tmp). A link belongs to the user who made
    it. Raises OSError as `stat` does.
    """
    owners = {0, os.geteuid(), *trusted}
    link = path.lstat()
    if stat.S_ISLNK(link.st_mode) and link.st_uid not in owners:
        return f"is a link that belongs to user {link.st_uid}"
    status = path.stat()
    if status.st_uid not in owners:
        return f"belongs to user {status.st_uid}"
    sticky = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
    return "can be written by everybody" if status.st_mode & stat.S_IWOTH and not sticky else ""


def adder_of(folder: Path, trusted: frozenset[int] = frozenset()) -> str:
    """Say who else can put a file into a folder whose files are run, as `stranger_of` says who can write one.

    The sticky bit keeps others from removing files, not from adding one under a name that is looked for. Raises OSError
    as `stat` does.
    """
    if found := stranger_of(folder, trusted):
        return found
    return "can be written by everybody" if folder.stat().st_mode & stat.S_IWOTH else ""


def maker_of(owner: int, mode: int, trusted: frozenset[int]) -> str:
    """Say who else than the trusted users can have written what has that owner and mode; empty for nobody."""
    if owner not in trusted:
        return f"belongs to user {owner}"
    return "can be written by everybody" if mode & stat.S_IWOTH else ""


def trusted_with(prefix: Path, uid: int) -> frozenset[int]:
    """Return whose code a launch of that environment runs anyway: root's, the user's, and the environment's owner's."""
    try:
        return frozenset({0, uid, prefix.stat().st_uid})
    except OSError:
        return frozenset({0, uid})


def behind_sudo() -> frozenset[int]:
    """Return the user whom root stands for under sudo, as git does for safe.directory."""
    told = os.environ.get("SUDO_UID", "")
    return frozenset({int(told)}) if os.geteuid() == 0 and told.isdecimal() else frozenset()


def read_of(path: Path, owners: frozenset[int], maximum: int) -> bytes:
    """Return the contents of a file of ours, which one of the owners, or root, must have made.

    Raises PermissionError for another user's and OSError for a link, and as `read_regular` does.
    """
    if path.is_symlink():
        raise OSError(errno.ELOOP, "a link, which envdoctor does not make", str(path))
    status, data = read_with_status(path, maximum)
    if status.st_uid not in owners | {0}:
        raise PermissionError(errno.EPERM, f"it belongs to user {status.st_uid}", str(path))
    return data
