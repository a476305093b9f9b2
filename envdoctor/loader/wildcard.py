"""Matches one wildcard in one folder as `glob.glob` does: in directory order, hidden names left out."""

import fnmatch
import os

from envdoctor.loader.disk import Disk


def expand_wildcard(folder: str, pattern: str, cwd: str, disk: Disk) -> tuple[str, ...]:
    """Return what `glob.glob(os.path.join(folder, pattern))` would, for a process in `cwd`.

    A folder name with a bracket or a star in it is a pattern to glob too: such a venv finds nothing, or another folder.
    """
    if any(sign in folder for sign in "*?["):  # glob.has_magic
        import glob  # noqa: PLC0415 - few folders have such a name

        return tuple(glob.glob(os.path.join(folder, pattern), root_dir=cwd))
    names = disk.names(os.path.join(cwd, folder))
    matched = fnmatch.filter((name for name in names if not name.startswith(".")), pattern)
    return tuple(os.path.join(folder, name) for name in matched)
