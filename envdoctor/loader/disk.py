"""What one simulation has seen of the disk, remembered, so that each file is looked at once."""

import os
from collections.abc import Callable, Iterator

from envdoctor.elf.reader import ElfObject, read
from envdoctor.errors import ElfError


class Disk:
    """Memo of stat, directory listings, real paths and parsed objects: facts of one moment.

    Share one between several simulations of the same environment (with and without LD_LIBRARY_PATH, for example).
    """

    __slots__ = ("_directories", "_elf", "_identities", "_listings", "_read", "_real", "_subdirectories")

    def __init__(self, read_elf: Callable[[str], ElfObject] = read) -> None:
        """Take the reader to use; a caller that remembers files between runs passes its own."""
        self._read = read_elf
        self._identities: dict[str, tuple[int, int] | None] = {}
        self._directories: dict[str, bool] = {}
        self._subdirectories: dict[tuple[str, tuple[str, ...]], tuple[str, ...]] = {}
        self._listings: dict[str, tuple[str, ...]] = {}
        self._real: dict[str, str] = {}
        self._elf: dict[str, ElfObject | ElfError] = {}

    def identity(self, path: str) -> tuple[int, int] | None:
        """Return the device and inode behind a path, or None when nothing can be opened there."""
        if path not in self._identities:
            try:
                status = os.stat(path)
                self._identities[path] = (status.st_dev, status.st_ino)
            except (OSError, ValueError):
                self._identities[path] = None
        return self._identities[path]

    def is_directory(self, path: str) -> bool:
        """Tell whether a path is a directory."""
        if path not in self._directories:
            self._directories[path] = os.path.isdir(path)
        return self._directories[path]

    def searched(self, directory: str, subdirectories: tuple[str, ...]) -> tuple[str, ...]:
        """Return the folders to look in for a directory of a search path, as prefixes ending in a slash.

        The subdirectories that exist come first, then the directory itself; () when it does not exist.
        """
        key = directory, subdirectories
        if key not in self._subdirectories:
            base = directory.rstrip("/") + "/"
            # One look at "glibc-hwcaps" or "tls" spares one look for each name below it.
            tops = {top for top in {name.partition("/")[0] for name in subdirectories} if self.is_directory(base + top)}
            below = tuple(
                f"{base}{name}/"
                for name in subdirectories
                if tops and name.partition("/")[0] in tops and self.is_directory(base + name)
            )
            self._subdirectories[key] = (*below, base) if self.is_directory(directory) else ()
        return self._subdirectories[key]

    def names(self, directory: str) -> tuple[str, ...]:
        """Return the names in a directory in the order the file system gives them; () when it cannot be listed."""
        if directory not in self._listings:
            try:
                with os.scandir(directory) as entries:
                    self._listings[directory] = tuple(entry.name for entry in entries)
            except OSError:
                self._listings[directory] = ()
        return self._listings[directory]

    def elf(self, path: str) -> ElfObject:
        """Return the parsed object; raise the same ElfError each time when the file is none."""
        if path not in self._elf:
            try:
                self._elf[path] = self._read(path)
            except ElfError as error:
                self._elf[path] = error
        found = self._elf[path]
        if isinstance(found, ElfError):
            raise found
        return found

    def parsed(self) -> Iterator[ElfObject]:
        """Yield every object that was read."""
        return (found for found in self._elf.values() if not isinstance(found, ElfError))

    def looked_at(self) -> frozenset[str]:
        """Return the paths whose state decided every answer: as long as none of them changes, no answer does.

        What was not found in a folder that was listed here is known from that folder's own time of change.
        """
        folders = {path for path, there in self._directories.items() if there}
        absent = {path for path, identity in self._identities.items() if identity is None}
        there = self._identities.keys() - absent
        implied = {path for path in absent if os.path.dirname(path) in folders}
        return frozenset(
            there | (absent - implied) | self._directories.keys() | self._listings.keys() | self._elf.keys()
        )

    def real(self, path: str) -> str:
        """Return the path with every symlink resolved: the name /proc/PID/maps shows."""
        directory, name = os.path.split(path)
        if directory not in self._real:
            self._real[directory] = os.path.realpath(directory)
        joined = os.path.join(self._real[directory], name)
        return os.path.realpath(joined) if os.path.islink(joined) else joined
