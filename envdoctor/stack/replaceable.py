"""Which folders may be replaced by a new venv, and which hold what a restore must not put away."""

import os
from collections.abc import Collection
from pathlib import Path

from envdoctor.errors import RestoreError, TargetError
from envdoctor.swap.store import STORE, BackupStore
from envdoctor.swap.unmanaged_files import listed_files, unmanaged_files


def refuse_no_venv(target: Path, *, new: bool = False) -> None:
    """Refuse to replace what is not a venv: a folder with other things in it, a conda environment, a file.

    new: there need not be one yet; the folders above it are made.
    """
    _refuse_undecodable(target)
    hint = "name a venv, or a path where there is nothing yet: `--venv PATH`"
    above = missing_folders(target)
    beside = (above[0] if above else target).parent
    if above and not new:
        raise TargetError(f"{target.parent} does not exist", hint)
    if not beside.is_dir():
        raise TargetError(f"{beside} is not a directory", hint)
    if not BackupStore.of(target).inside and not os.access(beside, os.W_OK | os.X_OK):
        raise RestoreError(
            f"{beside} cannot be written, and the new venv is built beside the old one",
            f"run it as the owner of {beside}, or restore into another folder: `--venv PATH`",
        )
    if not target.exists():
        return
    if not target.is_dir():
        raise TargetError(f"{target} is not a directory", hint)
    if (target / "conda-meta").is_dir():
        raise TargetError(f"{target} is a conda environment, which a lock of wheels cannot replace", hint)
    if not (target / "pyvenv.cfg").is_file() and any(path.name != STORE for path in target.iterdir()):
        raise TargetError(f"{target} is not a venv (it has no pyvenv.cfg), so it is not replaced", hint)


def _refuse_undecodable(target: Path) -> None:
    """Refuse a path that uv cannot be given: it takes text in UTF-8 only."""
    if str(target) != str(target).encode("utf-8", "replace").decode():
        raise TargetError(
            f"the path {str(target).encode('utf-8', 'backslashreplace').decode()} is not UTF-8, and uv, which builds "
            "the venv, takes no such path",
            "name another folder: `--venv PATH`",
        )


def refuse_cache_inside(target: Path, cache: Path) -> None:
    """Refuse where uv's cache is in the venv: it would be put away with the old one."""
    if Path(os.path.realpath(cache)).is_relative_to(target):
        raise TargetError(
            f"uv's cache {cache} is inside {target}, which is replaced as a whole",
            "name a folder elsewhere: `export UV_CACHE_DIR=FOLDER`",
        )


def missing_folders(target: Path) -> tuple[Path, ...]:
    """Return the folders above the venv that do not exist, the topmost first."""
    return tuple(reversed([folder for folder in target.parents if not os.path.lexists(folder)]))


def refuse_unmanaged_files(target: Path) -> Collection[str]:
    """Refuse to move the user's own files away with the old venv. Return the files that RECORDs list."""
    listed = listed_files(target)
    if target.is_dir() and (strange := unmanaged_files(target, listed)):
        shown = ", ".join(strange[:4]) + (f" and {len(strange) - 4} more" if len(strange) > 4 else "")
        raise TargetError(
            f"{target} also contains files that are not part of a venv: {shown}; a restore would move them away with "
            "the old venv",
            "move them out of the venv first, or restore into another folder: `--venv PATH`",
        )
    return listed
