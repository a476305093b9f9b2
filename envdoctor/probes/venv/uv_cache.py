"""uv's cache of unpacked wheels: the files a venv shares with it.

uv links a wheel's files into a venv instead of copying them (hard links, or symlinks with `--link-mode symlink`), so a
file edited in place is edited in the cache too, and in every venv linked from it, before or after (uv issues 10579 and
15700).
"""

import os
from collections.abc import Iterator
from pathlib import Path

from envdoctor.facts.folders import walk
from envdoctor.facts.host import Host
from envdoctor.facts.regular_file import read_regular
from envdoctor.model.frozen import field, mutable
from envdoctor.standards.names import normalized

# A cache holds one archive for each wheel ever unpacked, and a wheel some thousand files.
_MAXIMUM_ARCHIVES = 50_000
_MAXIMUM_FILES = 100_000
_MAXIMUM_RECORD = 32 * 1024 * 1024
# Between the entry of the last file in its folder and the end of writing it.
_LAST_FILE_NANOSECONDS = 60 * 10**9


def folder(host: Host) -> Path:
    """Return uv's cache folder: $UV_CACHE_DIR, $XDG_CACHE_HOME/uv or ~/.cache/uv."""
    named = host.environ.get("UV_CACHE_DIR")
    if named:
        return host.cwd / named
    return Path(host.environ.get("XDG_CACHE_HOME") or host.home / ".cache") / "uv"


@mutable
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

    def published(self, path: str, site: str, dist_info: str, recorded: int) -> str:
        """Return the cache's copy of `path` that has its size since uv unpacked the wheel; empty when none is known to.

        `recorded` is the other size that RECORD states, and that the wheel's own RECORD has to state too. What was
        edited later, in the venv or in the cache, was written after the archive was put in its place, which is the
        last change of its folder's inode; in a cache that was copied, long after every folder in it was filled. A file
        that somebody replaced moves both times of its folder: at the top of an archive what counts is when
        uv linked the archive from the wheel's name, which was next.
        """
        size = _size(path)
        relative = os.path.relpath(path, site)
        for archive in self._archives().get(dist_info, ()):
            candidate = f"{archive}/{relative}"
            stated = _stated_size(f"{archive}/{dist_info}/RECORD", relative)
            if _size(candidate) != size or stated != str(recorded) or not _unpacked(candidate, archive):
                continue
            if "/" in relative or _written(candidate) <= self._linked(archive, dist_info):
                return candidate
        return ""

    def _linked(self, archive: str, dist_info: str) -> int:
        """Return when uv linked an archive from a wheel's name, `wheels-vN/[KIND/]SOURCE/NAME/VERSION-TAGS`; else 0."""
        name = normalized(dist_info.removesuffix(".dist-info").rpartition("-")[0])
        links = (link for kind in ("*", "*/*") for link in folder(self.host).glob(f"wheels-v*/{kind}/{name}/*"))
        try:
            # The first: a later one says nothing of what was there when uv had unpacked it.
            return min(
                link.lstat().st_mtime_ns for link in links if os.path.realpath(link) == os.path.realpath(archive)
            )
        except (OSError, ValueError):
            return 0

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
            for at, _, files in walk(f"{archive}/{data}"):
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


def _size(path: str) -> int | None:
    try:
        return os.stat(path).st_size  # noqa: PTH116 - a string path
    except OSError:
        return None


def _written(path: str) -> int:
    return os.stat(path).st_mtime_ns  # noqa: PTH116 - a string path


def _stated_size(record: str, path: str) -> str:
    """Return the size that a RECORD states for a path, as written; empty when it states none."""
    try:
        rows = read_regular(record, _MAXIMUM_RECORD).decode("utf-8", "surrogateescape").splitlines()
    except OSError:
        return ""
    return next((row.rpartition(",")[2] for row in rows if row.startswith(f"{path},")), "")


def _unpacked(path: str, archive: str) -> bool:
    """Tell whether a file of an archive was last written while the archive was unpacked."""
    try:
        written = _written(path)
        in_place = os.stat(archive).st_ctime_ns  # noqa: PTH116 - as above
        filled = max(os.stat(at).st_mtime_ns for at, _, _ in walk(archive))  # noqa: PTH116 - as above
    except (OSError, ValueError):
        return False
    return written <= min(in_place, filled + _LAST_FILE_NANOSECONDS)
