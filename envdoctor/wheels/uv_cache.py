"""What uv's cache may hold, from its folders' names: uv has no command that tells, and asking it costs a process."""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path

from envdoctor.errors import RestoreError
from envdoctor.standards.lock import LockedPackage
from envdoctor.wheels.uv import Uv


def cache_folder(uv: Uv) -> Path:
    """Return where uv keeps its cache. Raises RestoreError."""
    told = uv.run(("cache", "dir")).stdout.strip()
    if not told or "\0" in told:
        raise RestoreError(
            f"{uv.binary} does not say where its cache is: its `cache dir` prints {told[:80]!r}",
            "it may be another program of that name: install uv beside envdoctor, `pip install uv`",
        )
    return uv.cwd / told


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


def folders(cache: Path, version: str) -> Iterator[str]:
    """Yield the folders that hold one folder or page a distribution: `wheels-vN/pypi`, `wheels-vN/index/DIGEST`."""
    for top in sorted(cache.glob(f"{version}*")):
        for kind in sorted(top.glob("*")):
            if kind.is_dir():
                yield str(kind)
                yield from (str(path) for path in sorted(kind.iterdir()) if kind.name != "pypi" and path.is_dir())


def refuse_special(cache: Path, packages: Sequence[LockedPackage], *, copies: bool) -> None:
    """Raise RestoreError where what the cache holds of these has a pipe or a device that uv would read: it waits there.

    uv reads the metadata and the scripts of an unpacked wheel; the other files it links, unless it `copies` them.
    """
    for folder in folders(cache, "wheels-v"):
        for package in packages:
            for special in _special_of(f"{folder}/{package.name}", f"{package.version}-", copies=copies):
                raise RestoreError(
                    f"{special} in uv's cache is not a regular file, and uv would wait at it; nothing was installed",
                    f"`uv cache clean {package.name}`, then run it again",
                )


def _special_of(folder: str, version: str, *, copies: bool) -> Iterator[str]:
    for entry in _entries(folder):
        if entry.name.startswith(version):
            yield from _special(entry, lambda name: copies or name.endswith((".dist-info", ".data")))


def _special(entry: "os.DirEntry[str]", inside: Callable[[str], bool]) -> Iterator[str]:
    """Yield what is neither a file nor a folder; `inside` tells by name which folders in this one are looked into.

    Behind a link that leads nowhere is nothing to wait at.
    """
    todo = [entry]
    while todo:
        one = todo.pop()
        if one.is_dir():
            found = _entries(one.path)
            todo += [inner for inner in found if one is not entry or inside(inner.name) or not inner.is_dir()]
        elif not one.is_file() and os.path.exists(one.path):  # noqa: PTH110
            yield one.path


def _entries(folder: str) -> Iterable["os.DirEntry[str]"]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except OSError:
        return ()
