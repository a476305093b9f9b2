"""A venv as it was when its successor was begun: what somebody changes in it afterwards would only be in the backup."""

import os
import stat
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from envdoctor.errors import RestoreError
from envdoctor.model.wording import counted
from envdoctor.swap.store import STORE
from envdoctor.swap.unmanaged_files import CACHE_FOLDERS

_SHOWN = 3


class SeenVenv:
    """Its entries, without bytecode and compile caches, which change while the venv is used."""

    def __init__(self, venv: Path) -> None:
        """Read every entry; nothing is opened. A venv that does not exist has none."""
        self._venv = venv
        self._entries = dict(_entries(str(venv)))

    def refuse_changed(self) -> None:
        """Raise RestoreError where the venv is not as it was; one that is gone has nothing to lose."""
        now = dict(_entries(str(self._venv)))
        if now == self._entries or not self._venv.is_dir():
            return
        paths = now.keys() | self._entries.keys()
        changed = sorted(path for path in paths if now.get(path) != self._entries.get(path))
        more = f" and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
        raise RestoreError(
            f"{counted(len(changed), 'file')} of {self._venv} changed meanwhile: {', '.join(changed[:_SHOWN])}{more}",
            "nothing was swapped; run it again once nothing else changes that venv",
        )


def _entries(venv: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    pending = [""]
    while pending:
        folder = pending.pop()
        try:
            found = os.scandir(f"{venv}/{folder}")
        except FileNotFoundError:
            continue  # gone, which its parent tells
        with found:
            for entry in found:
                at_top = not folder and (entry.name == STORE or any(fnmatch(entry.name, one) for one in CACHE_FOLDERS))
                if at_top or entry.name == "__pycache__":
                    continue
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                path = f"{folder}{entry.name}"
                if stat.S_ISDIR(status.st_mode):
                    pending.append(f"{path}/")
                    yield path, (status.st_mode,)
                else:
                    yield path, (status.st_mode, status.st_size, status.st_mtime_ns, status.st_ino)
