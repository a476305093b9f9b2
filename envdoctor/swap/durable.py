"""Renames that a power cut does not undo."""

import os
from pathlib import Path


def inode(path: Path) -> int | None:
    """Return the inode number of what is there, or None when there is nothing."""
    try:
        return path.lstat().st_ino
    except (FileNotFoundError, NotADirectoryError):
        return None


def move(source: Path, destination: Path) -> None:
    """Rename durably within one file system."""
    destination.parent.mkdir(parents=True, exist_ok=True)
    source.rename(destination)
    sync_folder(source.parent)
    sync_folder(destination.parent)


def sync_folder(folder: Path) -> None:
    """Make renames and unlinks in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
