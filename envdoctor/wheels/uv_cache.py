"""What uv's cache may hold, from its folders' names: uv has no command that tells, and asking it costs a process."""

from collections.abc import Collection
from pathlib import Path

from envdoctor.wheels.uv import Uv


def cache_folder(uv: Uv) -> Path:
    """Return where uv keeps its cache. Raises UvError."""
    return Path(uv.run(("cache", "dir")).stdout.strip())


def perhaps_cached(cache: Path, names: Collection[str]) -> frozenset[str]:
    """Return those of the normalized names that the cache may have a wheel of: never one too few.

    uv keeps a folder `wheels-vN/SOURCE/NAME` or `wheels-vN/KIND/SOURCE/NAME` for each distribution that it ever
    fetched. A cache that is laid out in another way may have everything.
    """
    kinds = list(cache.glob("wheels-v*/*"))
    if not kinds and any(cache.glob("archive-v*")):
        return frozenset(names)
    there = {path.name for path in kinds} | {path.name for kind in kinds for path in kind.glob("*")}
    there |= {path.name for kind in kinds if kind.name != "pypi" for path in kind.glob("*/*")}
    return frozenset(names) & there
