"""A disk on which some files are not there: what the loader model sees after a removal that nobody made."""

import os
from collections.abc import Collection

from envdoctor.loader.disk import Disk


class HidingDisk(Disk):
    """A `Disk` without the hidden paths. Folders stay, empty or not, as an empty one changes no search."""

    __slots__ = ("_folders", "_hidden")

    def __init__(self, hidden: Collection[str]) -> None:
        """Take absolute paths as RECORD gives them; other spellings of the same path are hidden too."""
        super().__init__()
        self._folders: dict[str, str] = {}
        self._hidden = {self._plain(path) for path in hidden}

    def _plain(self, path: str) -> str:
        folder, name = os.path.split(path)
        if folder not in self._folders:
            self._folders[folder] = os.path.realpath(folder)
        return os.path.join(self._folders[folder], name)

    def identity(self, path: str) -> tuple[int, int] | None:
        """Return None for a hidden path, else what the disk says."""
        return None if self._plain(path) in self._hidden else super().identity(path)

    def names(self, directory: str) -> tuple[str, ...]:
        """Return the names in a directory without the hidden ones."""
        return tuple(
            name for name in super().names(directory) if self._plain(f"{directory}/{name}") not in self._hidden
        )
