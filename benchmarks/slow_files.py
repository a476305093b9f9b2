"""Mount a folder a second time, read-only, with a delay in each look-up: a network file system on one machine.

    uv run --with mfusepy python benchmarks/slow_files.py FOLDER MOUNTPOINT SECONDS

Needs FUSE and libfuse (Debian: fuse3). The kernel keeps a look-up for a second, as NFS keeps attributes for three or
more. `os.getxattr(MOUNTPOINT, "user.lookups")` returns how many reached it; it prints the number when it is unmounted
(`fusermount3 -u MOUNTPOINT`).
"""

import errno
import os
import sys
import time
from pathlib import Path
from typing import Any

from mfusepy import FUSE, FuseOSError, Operations  # type: ignore[import-not-found,unused-ignore]

_STATUS = ("st_mode", "st_nlink", "st_uid", "st_gid", "st_size", "st_ino")
_TIMES = ("st_atime", "st_mtime", "st_ctime")


class SlowFiles(Operations):  # type: ignore[misc,unused-ignore]
    """The folder's files; each look-up sleeps."""

    use_ns = True

    def __init__(self, folder: str, seconds: float) -> None:
        """Take the folder and the delay."""
        self.folder, self.seconds, self.calls = folder, seconds, 0

    def getattr(self, path: str, fh: int | None = None) -> dict[str, int]:
        """Return a status, after the delay."""
        del fh
        self.calls += 1
        time.sleep(self.seconds)
        try:
            status = os.lstat(self.folder + path)
        except OSError as error:
            raise FuseOSError(error.errno or errno.EIO) from error
        return {name: getattr(status, name) for name in _STATUS} | {
            name: getattr(status, f"{name}_ns") for name in _TIMES
        }

    def getxattr(self, path: str, name: str, position: int = 0) -> bytes:
        """Return the look-ups so far as the mount point's attribute."""
        del position
        if path != "/" or name != "user.lookups":
            raise FuseOSError(errno.ENODATA)
        return str(self.calls).encode()

    def readdir(self, path: str, fh: int) -> list[str]:
        """Return the names in a folder."""
        del fh
        return [".", "..", *os.listdir(self.folder + path)]  # noqa: PTH208 - names only

    def readlink(self, path: str) -> str:
        """Return where a link points."""
        return str(Path(self.folder + path).readlink())

    def open(self, path: str, flags: int) -> int:
        """Return a descriptor."""
        return os.open(self.folder + path, flags)

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        """Return bytes of an opened file."""
        del path
        return os.pread(fh, size, offset)

    def release(self, path: str, fh: int) -> int:
        """Close a descriptor."""
        del path
        os.close(fh)
        return 0

    def access(self, path: str, mode: int) -> int:
        """Grant everything: the benchmark runs as the owner."""
        del path, mode
        return 0

    def destroy(self, path: str) -> None:
        """Say how many look-ups there were."""
        del path
        print(f"{self.calls} look-ups")


if __name__ == "__main__":
    options: dict[str, Any] = {"foreground": True, "ro": True, "attr_timeout": 1.0, "entry_timeout": 1.0}
    FUSE(SlowFiles(sys.argv[1], float(sys.argv[3])), sys.argv[2], **options)
