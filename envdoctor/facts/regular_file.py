"""Reading a file of the target venv without being caught by what is not a regular file."""

import errno
import os
import stat
from collections.abc import Callable
from io import BufferedReader
from pathlib import Path


def read_regular(path: Path | str, maximum: int) -> bytes:
    """Return the contents of a regular file.

    Raises FileNotFoundError when absent, and OSError for a folder, FIFO, socket or device and for a file larger than
    `maximum` bytes.
    """
    return read_with_status(path, maximum)[1]


def read_text(path: Path | str, maximum: int, errors: str = "strict") -> str:
    """Return the UTF-8 text of a regular file. Raises UnicodeDecodeError, and as `read_regular` does."""
    return read_regular(path, maximum).decode("utf-8", errors)


def read_with_status(path: Path | str, maximum: int) -> tuple[os.stat_result, bytes]:
    """Return a regular file's status, taken before its contents, and these. Raises as `read_regular` does."""
    status, data = read_unless(path, maximum, lambda _: False)
    assert data is not None  # noqa: S101 - nothing is known
    return status, data


def read_unless(
    path: Path | str, maximum: int, known: Callable[[os.stat_result], bool]
) -> tuple[os.stat_result, bytes | None]:
    """Return a regular file's status and its contents: None, unread, where it is known by the status.

    The status is of the opened file: a network file system asks its server when a file is opened. Raises as
    `read_regular` does.
    """
    descriptor, status = _open(path)
    try:
        if status.st_size > maximum:
            raise OSError(errno.EFBIG, f"{status.st_size} bytes, more than the {maximum} it can hold", str(path))
        return status, None if known(status) else _read(descriptor, status.st_size, maximum)
    finally:
        os.close(descriptor)


def _read(descriptor: int, size: int, maximum: int) -> bytes:
    # A read of one byte more than there was tells, by being short, that this was all of it.
    data = os.read(descriptor, size + 1)
    while size < len(data) < maximum and (more := os.read(descriptor, maximum - len(data))):
        data, size = data + more, len(data)
    return data[:maximum]


def open_regular(path: Path | str) -> BufferedReader:
    """Return a regular file, open for reading. Raises as `read_regular` does, but for no length."""
    return os.fdopen(_open(path)[0], "rb")


def read_prefix(path: Path | str, size: int) -> bytes:
    """Return the first `size` bytes of a regular file. Raises as `read_regular` does, but for no length."""
    descriptor, _ = _open(path)
    try:
        return os.read(descriptor, size)
    finally:
        os.close(descriptor)


def _open(path: Path | str) -> tuple[int, os.stat_result]:
    _refuse(os.stat(path), path)  # noqa: PTH116 - a string path as often as not
    # Should it be swapped for a FIFO or a terminal now, opening it must neither wait nor take it over.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        _refuse(status, path)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor, status


def _refuse(status: os.stat_result, path: Path | str) -> None:
    # Looked at before it is opened: opening alone does something to some devices, and to the writer of a FIFO.
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))
