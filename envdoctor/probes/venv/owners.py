"""Which distribution a file belongs to: the one whose RECORD lists it, and of several the one whose bytes are there."""

import os

from envdoctor.facts.context import Reading
from envdoctor.probes.venv.distributions import Distribution, Distributions
from envdoctor.probes.venv.installed_files import contested
from envdoctor.probes.venv.records import index


class Owners:
    """Tells owners of one environment's files."""

    def __init__(self, reading: Reading) -> None:
        """Read the RECORDs, once for all who ask."""
        self.prefix = str(reading.target.prefix) + os.sep
        self._items = reading.fact(Distributions).items
        self._owners = index(reading).owners
        self._on_disk = {item.path: item.on_disk for item in contested(reading)}

    def of(self, path: str, real: str = "") -> Distribution | None:
        """Return the owner of a path (or of its real path); None when no RECORD lists it."""
        for name in (os.path.normpath(path), real or path):
            at = self._owners.get(name)
            if at is not None:
                claimed = self._on_disk.get(name.removeprefix(self.prefix))
                if claimed is None:
                    return self._items[at]
                return next((other for other in self._items if other.name in claimed), None)
        return None

    def relative(self, path: str) -> str:
        """Return a path relative to the prefix when inside it."""
        return os.path.normpath(path).removeprefix(self.prefix) if path else ""
