"""A wheel file on disk, looked into before anything is installed from it."""

import stat
import zipfile
from pathlib import Path, PurePosixPath


def unsafe_entry(wheel: Path) -> str:
    """Return what is wrong with the first entry that leads out of the venv or is no plain file; empty when none is.

    Only the archive's directory is read. A file that is no zip archive is wrong as a whole.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            return next((problem for entry in archive.infolist() if (problem := _problem(entry))), "")
    except (zipfile.BadZipFile, OSError) as error:
        return f"it is no readable wheel ({error})"


def _problem(entry: zipfile.ZipInfo) -> str:
    path = PurePosixPath(entry.filename)
    if path.is_absolute() or ".." in path.parts or "\\" in entry.filename:
        return f"its entry {entry.filename} leads out of the venv"
    if stat.S_ISLNK(entry.external_attr >> 16):
        return f"its entry {entry.filename} is a symbolic link"
    return ""
