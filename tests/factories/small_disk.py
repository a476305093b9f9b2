"""A file system of a chosen size (tmpfs), mounted by the test; needs root."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PAGE = os.sysconf("SC_PAGE_SIZE")


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """Mount a roomy file system at a new folder, and take it away again. Raises OSError where that is not allowed."""
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", folder], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        folder.rmdir()
        raise OSError(f"a tmpfs cannot be mounted here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        # Lazily: a process that a failing test left behind must not keep the mount.
        subprocess.run(["umount", "--lazy", folder], check=True)


def used_pages(disk: Path) -> int:
    """Return how many pages are in use."""
    status = os.statvfs(disk)
    return (status.f_blocks - status.f_bfree) * status.f_frsize // PAGE


def leave(disk: Path, pages: int) -> None:
    """Shrink or grow the file system so that so many pages are free.

    A size that is below what is in use is refused by the kernel. That happens when somebody writes between the look and
    the change, so it is tried again. Raises OSError when it never succeeds.
    """
    for _ in range(100):
        size = (used_pages(disk) + pages) * PAGE
        done = subprocess.run(
            ["mount", "-o", f"remount,size={size}", disk], capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            return
    raise OSError(f"{disk} cannot be made {size} bytes large: {done.stderr.strip()}")


def roomy(disk: Path) -> None:
    """Make the file system large again."""
    subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)


def read_only(disk: Path) -> None:
    """Make the file system read-only."""
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)


def writable(disk: Path) -> None:
    """Make it writable again."""
    subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
