"""Folders deeper than Python's calls may be."""

import os
from pathlib import Path


def deep(folder: Path, levels: int, name: str = "d") -> Path:
    """Make nested folders, a file in the last; also where their path is too long to be named."""
    folder.mkdir(exist_ok=True)
    at = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir(name, dir_fd=at)
        below = os.open(name, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=at))
    os.close(at)
    return folder
