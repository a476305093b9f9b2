"""Reading a file of the target venv without being caught by what is no file."""

import errno
import os
import stat
from pathlib import Path


def read_regular(path: Path | str, maximum: int) -> bytes:
    """Return the contents of a regular file.

    Raises FileNotFoundError when absent, and OSError for a folder, FIFO, socket or device and for a file larger than
    `maximum` bytes.
    """
    descriptor = _open(path)
    try:
        size = os.fstat(descriptor).st_size
        if size > maximum:
            raise OSError(errno.EFBIG, f"{size} bytes, more than the {maximum} it can hold", str(path))
        return _read(descriptor, size, maximum)
    finally:
        os.close(descriptor)


def _read(descriptor: int, size: int, maximum: int) -> bytes:
    # A read of one byte more than there was tells, by being short, that this was all of it.
    data = os.read(descriptor, size + 1)
    while size < len(data) < maximum and (more := os.read(descriptor, maximum - len(data))):
        data, size = data + more, len(data)
    return data[:maximum]


def read_prefix(path: Path | str, size: int) -> bytes:
    """Return the first `size` bytes of a regular file. Raises as `read_regular` does, but for no length."""
    descriptor = _open(path)
    try:
        return os.read(descriptor, size)
    finally:
        os.close(descriptor)


def _open(path: Path | str) -> int:
    _refuse(os.stat(path), path)  # noqa: PTH116 - a string path as often as not
    # Should it be swapped for a FIFO or a terminal now, opening it must neither wait nor take it over.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        _refuse(os.fstat(descriptor), path)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _refuse(status: os.stat_result, path: Path | str) -> None:
    # Looked at before it is opened: opening alone does something to some devices, and to whoever writes to a FIFO.
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))
