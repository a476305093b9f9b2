"""A wheel file, looked into before anything is installed from it."""

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from envdoctor.model.frozen import frozen

if TYPE_CHECKING:
    import zipfile


@frozen
class WheelListing:
    """What a wheel's table of contents says."""

    problem: str = ""
    """What is wrong with the first entry that leads out of the venv or is not a plain file; empty when none is."""
    unpacked: int | None = None
    """Bytes of its files once they are unpacked; None when that could not be read."""


def contents_of(wheel: Path | BinaryIO) -> WheelListing:
    """Read a wheel's table of contents and nothing else. A file that is not a zip archive is wrong as a whole."""
    import zipfile  # noqa: PLC0415 - a restore from uv's cache opens no wheel

    try:
        with zipfile.ZipFile(wheel) as archive:
            total = sum(entry.file_size for entry in archive.infolist())
            return WheelListing(problem=next(unsafe_entries(archive), ""), unpacked=total)
    except (zipfile.BadZipFile, NotImplementedError, UnicodeDecodeError, OSError) as error:
        return WheelListing(problem=f"it is not a readable wheel ({error})")


def unsafe_entry(wheel: Path | BinaryIO) -> str:
    """Return what is wrong with the first entry that must not be installed; empty when none is."""
    return contents_of(wheel).problem


def unsafe_entries(archive: "zipfile.ZipFile") -> Iterator[str]:
    """Yield a sentence for each entry that leads out of the venv or is not a plain file."""
    for entry in archive.infolist():
        # The stored name: zipfile cuts the one it gives at a NUL.
        name = entry.orig_filename
        kind = stat.S_IFMT(entry.external_attr >> 16)
        if name.startswith("/") or (".." in name and ".." in name.split("/")) or "\\" in name or "\0" in name:
            yield f"its entry {name} leads out of the venv"
        elif kind == stat.S_IFLNK:
            yield f"its entry {name} is a symbolic link"
        elif kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            yield f"its entry {name} is not a file"
