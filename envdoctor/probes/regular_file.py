"""Reading a file of the patient without being caught by what is no file."""

import errno
import os
import stat
from pathlib import Path


def read_regular(path: Path | str, maximum: int) -> bytes:
    """Return at most `maximum` bytes of a regular file.

    Raises FileNotFoundError when absent, and OSError for a folder, FIFO, socket or device (opening one of those could
    block for ever) and for a file larger than `maximum`.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        if status.st_size > maximum:
            raise OSError(errno.EFBIG, f"{status.st_size} bytes, more than the {maximum} it can hold", str(path))
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(maximum)
    finally:
        os.close(descriptor)


def read_prefix(path: Path | str, size: int) -> bytes:
    """Return the first `size` bytes of a regular file. Raises as `read_regular` does, but for no length."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        return os.read(descriptor, size)
    finally:
        os.close(descriptor)
