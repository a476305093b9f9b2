"""Which folders of a venv are compile caches: a running training writes into them, and that changes no stack."""

import os
from fnmatch import fnmatch
from pathlib import Path

from envdoctor.facts.host import Host
from envdoctor.probes.caches.compile_caches import locate
from envdoctor.swap.unmanaged_files import CACHE_FOLDERS, VENV_ENTRIES

_SITE = "site-packages"


class CachesInside:
    """Folders with a cache's name, and those that this host's variables name. Paths are relative, with slashes."""

    def __init__(self, venv: Path, host: Host) -> None:
        """Read the variables. One that names a folder of packages, or one above, does not make a cache of it."""
        top = f"{venv}/"
        real = (os.path.realpath(path) for _, path, _ in locate(host))
        inner = (path.removeprefix(top) for path in real if path.startswith(top))
        self._named = frozenset(
            path for path in inner if path not in VENV_ENTRIES and not os.path.lexists(f"{top}{path}/{_SITE}")
        )

    def begin_at(self, folder: str) -> bool:
        """Tell whether the folder is a cache; none is where packages are."""
        if f"/{_SITE}/" in f"/{folder}/":
            return False
        name = folder.rpartition("/")[2]
        return folder in self._named or any(fnmatch(name, pattern) for pattern in CACHE_FOLDERS)

    def hold(self, path: str) -> bool:
        """Tell whether something is a cache or in one."""
        parts = path.split("/")
        return any(self.begin_at("/".join(parts[: count + 1])) for count in range(len(parts)))
