"""Our folder inside a cache, and paths in a cache that no link leads out of: others may write there too."""

import os
import stat
import time
from contextlib import suppress
from pathlib import Path

from envdoctor.catalog.cache_kinds import OWN
from envdoctor.errors import CacheError
from envdoctor.facts.folders import remove_folder

STAGING = "staging-"
"""Begins the name of a folder that a restore unpacks into; its process's number follows."""
_ABANDONED_SECONDS = 3600.0


def own_folder(root: Path, *, make: bool = False) -> Path:
    """Return `.envdoctor` of a cache, which need not exist. Raises CacheError where it is not a real folder of ours.

    What is in it is written, believed and removed; through a link that would be files which are not envdoctor's.
    """
    own = root / OWN
    try:
        if make:
            root.mkdir(parents=True, exist_ok=True, mode=0o700)
            own.mkdir(exist_ok=True, mode=0o700)
        status = own.lstat()
    except FileNotFoundError:
        return own
    except OSError as error:
        raise CacheError(f"{own}: {error.strerror}", "run it as the cache's owner") from error
    if not stat.S_ISDIR(status.st_mode):
        raise CacheError(f"{own} is not a real folder, so nothing is read from it or put there", "move it away")
    if status.st_uid not in (0, os.geteuid()):
        raise CacheError(
            f"{own} belongs to user {status.st_uid}, so nothing is read from it or put there",
            "name a cache of your own: TORCHINDUCTOR_CACHE_DIR",
        )
    return own


def require_real(root: Path, path: str) -> None:
    """Raise CacheError when a link is on the way from the root to a file that is to be written there."""
    at = root
    for part in path.split("/"):
        at /= part
        if at.is_symlink():
            raise CacheError(f"{at}: a link, and nothing is written through one", "remove the link")


def remove_abandoned(own: Path) -> None:
    """Remove what restores that were killed have left unpacked: of no live process, and an hour old."""
    for folder in own.glob(f"{STAGING}*"):
        number = folder.name.removeprefix(STAGING).partition("-")[0]
        try:
            old = time.time() - folder.lstat().st_mtime > _ABANDONED_SECONDS
        except OSError:
            continue
        if old and not (number.isdecimal() and Path("/proc", number).exists()) and not folder.is_symlink():
            with suppress(OSError):
                remove_folder(folder)
