"""uv's cache of unpacked wheels: the files a venv shares with it.

uv links a wheel's files into a venv instead of copying them (hard links, or symlinks with `--link-mode symlink`), so a
file edited in place is edited in the cache too, and in every venv linked from it, before or after (uv issues 10579 and
15700).
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from envdoctor.probes.host import Host

# A cache holds one archive for each wheel ever unpacked, and a wheel some thousand files.
_MAXIMUM_ARCHIVES = 50_000
_MAXIMUM_FILES = 100_000


def folder(host: Host) -> Path:
    """Return uv's cache folder: $UV_CACHE_DIR, $XDG_CACHE_HOME/uv or ~/.cache/uv."""
    named = host.environ.get("UV_CACHE_DIR")
    if named:
        return host.cwd / named
    return Path(host.environ.get("XDG_CACHE_HOME") or host.home / ".cache") / "uv"


@dataclass(slots=True, kw_only=True)
class UvCache:
    """Looks up where in the cache a file of a venv lies. Reads folders, opens no file."""

    host: Host
    archives: dict[str, list[str]] | None = field(default=None)
    """Name of a dist-info folder -> the archives that hold one; read on first use."""

    def twin(self, path: str, site: str, dist_info: str) -> str:
        """Return the cache's path of the very file at `path` (absolute, in `site`); empty when it shares none.

        `dist_info` is the name of its owner's dist-info folder, which tells the archives apart.
        """
        try:
            status = os.stat(path)  # noqa: PTH116 - a string path
            if status.st_nlink == 1 and not os.path.islink(path):  # noqa: PTH114 - as above
                return ""
        except OSError:
            return ""
        identity = (status.st_dev, status.st_ino)
        relative = os.path.relpath(path, site)
        for archive in self._archives().get(dist_info, ()):
            for candidate in self._candidates(archive, relative):
                if _identity(candidate) == identity:
                    return candidate
        return ""

    def _archives(self) -> dict[str, list[str]]:
        if self.archives is None:
            self.archives = {}
            for count, archive in enumerate(self._folders()):
                if count >= _MAXIMUM_ARCHIVES:
                    break
                for name in _names(archive):
                    if name.endswith(".dist-info"):
                        self.archives.setdefault(name, []).append(archive)
        return self.archives

    def _folders(self) -> Iterator[str]:
        cache = folder(self.host)
        for bucket in sorted(name for name in _names(str(cache)) if name.startswith("archive-v")):
            yield from (f"{cache}/{bucket}/{name}" for name in _names(f"{cache}/{bucket}"))

    @staticmethod
    def _candidates(archive: str, relative: str) -> Iterator[str]:
        yield f"{archive}/{relative}"
        # What a wheel keeps under NAME.data/purelib, data, ... is laid out elsewhere in the venv.
        seen = 0
        for data in (name for name in _names(archive) if name.endswith(".data")):
            for at, _, files in os.walk(f"{archive}/{data}"):
                yield from (f"{at}/{name}" for name in files if name == os.path.basename(relative))  # noqa: PTH119
                seen += len(files)
                if seen > _MAXIMUM_FILES:
                    return


def _names(path: str) -> list[str]:
    try:
        return os.listdir(path)  # noqa: PTH208 - names only
    except OSError:
        return []


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116 - a string path
    except OSError:
        return None
    return status.st_dev, status.st_ino
