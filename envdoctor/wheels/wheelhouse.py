"""A folder of wheels: beside a lock for what no index has, or filled by a fetch for a machine without an index."""

import os
import shlex
from collections.abc import Iterable
from pathlib import Path

from envdoctor.documents.profile_store import ProfileRef
from envdoctor.errors import UsageError
from envdoctor.model.frozen import replace
from envdoctor.wheels.pip_config import PipSettings

_GATE = "envdoctor-gate"


def beside(lock: Path, profile: str) -> Path:
    """Return the folder beside a lock that holds the wheels no index has; it need not exist."""
    return lock.parent / f"{profile}.wheels"


def chosen(named: Iterable[str], file: ProfileRef, cwd: Path) -> tuple[Path, ...]:
    """Return the wheelhouses to look into: the named ones, then the one beside the lock where there is one.

    Raises UsageError for a named one that is not a directory.
    """
    folders = [Path(os.path.realpath(cwd / name)) for name in named]
    for folder in folders:
        if not folder.is_dir():
            fill = f"`envdoctor fetch --profile {shlex.quote(file.asked)} --wheelhouse {shlex.quote(str(folder))}`"
            raise UsageError(
                f"the wheelhouse {folder} is not a directory",
                "name another" if os.path.lexists(folder) else f"fill one where an index is: {fill}",
            )
    usual = Path(os.path.realpath(beside(file.lock_path, file.profile.name)))
    found = tuple(dict.fromkeys([*folders, *([usual] if usual.is_dir() else [])]))
    for folder in found:
        if "," in str(folder):
            raise UsageError(f"the wheelhouse {folder} has a comma in its path, which uv takes for two", "rename it")
    return found


def gate_hint(name: str, profile: str) -> str:
    """Return what brings the wheel of a profile's package where it is the launch gate, which no index has; else ""."""
    if name != _GATE:
        return ""
    return f"it comes with envdoctor: `envdoctor gate add --profile {shlex.quote(profile)}` puts it beside the lock"


def with_wheelhouses(pip: PipSettings, folders: Iterable[Path]) -> PipSettings:
    """Return pip's settings with the wheelhouses before every other find-links place."""
    return replace(pip, find_links=(*map(str, folders), *pip.find_links))
