"""The folder that an editable installation names: whether it is gone, and whether its share may just not be mounted."""

import errno
import stat
from pathlib import Path
from urllib.parse import unquote, urlsplit

NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
"""What the system answers where there is certainly nothing."""
# "/" and "/mnt".
_NEAR_ROOT = 2


def source_folder(url: str) -> Path:
    """Return the folder of a file:// URL."""
    return Path(unquote(urlsplit(url).path).replace("\0", ""))


def is_gone(source: Path) -> bool:
    """Tell whether a folder is known not to be there; one that may not be looked at may be."""
    try:
        return not stat.S_ISDIR(source.stat().st_mode)
    except OSError as error:
        return error.errno in NOT_THERE


def mount_point(source: Path) -> str:
    """Return the last folder of the path that exists, where it is empty or near the root; else ""."""
    try:
        left = next(folder for folder in source.parents if folder.exists())
        return str(left) if len(left.parts) <= _NEAR_ROOT or not any(left.iterdir()) else ""
    except (OSError, StopIteration, ValueError):
        return ""
