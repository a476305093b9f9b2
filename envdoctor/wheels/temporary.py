"""Folders for a moment, and what is left of them when a run was killed: the next run removes it."""

import fcntl
import os
import re
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from envdoctor.errors import RestoreError
from envdoctor.facts.folders import remove_folder

_PREFIX = "envdoctor-run-"
_OURS = re.compile(re.escape(_PREFIX) + r"\w{8}")
# A folder is locked right after it is made; a younger one may be another run's that has not come so far.
_MOMENT = 60.0


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Give an empty folder that is gone afterwards. Held by a lock, which the kernel takes from a killed process."""
    sweep()
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as folder:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield Path(folder)
        finally:
            os.close(descriptor)


@cache
def sweep() -> None:
    """Remove such folders of this user that no living process holds; once a run. Raises RestoreError without TMPDIR."""
    try:
        top = tempfile.gettempdir()
    except FileNotFoundError as error:
        raise RestoreError(
            "no folder can be written for temporary files",
            "name one that can: `export TMPDIR=FOLDER`, then run it again",
        ) from error
    for path in Path(top).glob(f"{_PREFIX}*"):
        if _OURS.fullmatch(path.name):
            _remove_if_left(path)


def _remove_if_left(path: Path) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return  # gone, a link, or another user's
    try:
        status = os.fstat(descriptor)
        mine = status.st_uid == os.getuid() and not stat.S_IMODE(status.st_mode) & 0o077
        if mine and status.st_mtime < time.time() - _MOMENT:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_folder(path)
    except OSError:
        pass  # a living run holds it, or it cannot be removed
    finally:
        os.close(descriptor)
