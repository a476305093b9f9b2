"""Writing a file so that a reader, a crash or a full disk sees the old one or the new one, never a part.

Nor is anything written through a link, or to what is not a file, in a folder that somebody else may have filled.
"""

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from envdoctor.facts.on_failure import on_failure

# O_NOFOLLOW goes with O_EXCL: nothing that somebody put there, link or file, is ever written to.
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def beside(path: Path) -> Path:
    """Return a name beside a file, for what is to take its place, that nobody can have foreseen."""
    return path.with_name(f".{path.name[:100]}.{os.urandom(8).hex()}.tmp")


def create(path: Path, mode: int = 0o666) -> int:
    """Return the descriptor of a new file, `mode` less the umask. Raises FileExistsError for whatever is there."""
    return os.open(path, _NEW, mode)


def write_whole(path: Path, content: bytes, mode: int = 0o666, *, exact: bool = False) -> None:
    """Write a file in one step, on the disk before it has its name. Raises OSError, the old file as it was.

    exact: the mode is not narrowed by the umask.
    """
    temporary = beside(path)
    with on_failure(lambda: temporary.unlink(missing_ok=True)):
        with os.fdopen(create(temporary, mode), "wb") as file:
            if exact:
                os.fchmod(file.fileno(), mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)


def rewrite(path: Path, content: bytes) -> None:
    """Write a file that is there in one step; it keeps its mode. Raises OSError, the old file as it was."""
    write_whole(path, content, stat.S_IMODE(path.lstat().st_mode), exact=True)


def write_named(path: Path, content: bytes) -> None:
    """Write what a person named: a file in one step, a pipe or a device as it comes. Raises OSError."""
    target = Path(os.path.realpath(path))  # what a link of the user's leads to is what was meant
    if target.exists() and not target.is_file():
        target.write_bytes(content)
    else:
        write_whole(target, content)


def open_own(path: Path, flags: int, mode: int = 0o666) -> int:
    """Open a file of ours that stays where it is (a lock, a log), made where it is missing; return its descriptor.

    Raises OSError for a link, for anything but a file, and for a file that has another name too: what that is would be
    written to.
    """
    descriptor = os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a file with this name alone", str(path))
    return descriptor


def open_alone(path: Path, flags: int, mode: int = 0o666) -> int:
    """Open as `open_own` does a file of ours whose content counts (a log, a part of a download).

    One of this user's that has a second name (`cp -al` of a project) first becomes a copy with this name alone, with
    the same bytes and mode: what is written is not written to the other.
    """
    try:
        status = path.lstat()
    except FileNotFoundError:
        return open_own(path, flags, mode)
    if stat.S_ISREG(status.st_mode) and status.st_nlink > 1 and status.st_uid == os.geteuid():
        _copy_in_place(path)
    return open_own(path, flags, mode)


def _copy_in_place(path: Path) -> None:
    import fcntl  # noqa: PLC0415 - for what seldom happens

    # Of two processes, the second would put its copy over the first one's, and over what that has written by then.
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(folder, fcntl.LOCK_EX)
        if path.lstat().st_nlink > 1:
            _copy_alone(path)
    finally:
        os.close(folder)


def _copy_alone(path: Path) -> None:
    import shutil  # noqa: PLC0415 - for what seldom happens

    temporary = beside(path)
    source = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(source)
        with on_failure(lambda: temporary.unlink(missing_ok=True)):
            with os.fdopen(create(temporary, 0o600), "wb") as file:
                with os.fdopen(os.dup(source), "rb") as content:
                    shutil.copyfileobj(content, file, 1 << 20)
                os.fchmod(file.fileno(), stat.S_IMODE(status.st_mode))
            temporary.replace(path)
    finally:
        os.close(source)


def appending(path: Path, mode: int = 0o666) -> BinaryIO:
    """Return a file of ours, open for appending. Raises as `open_alone` does."""
    return os.fdopen(open_alone(path, os.O_WRONLY | os.O_APPEND, mode), "ab")
