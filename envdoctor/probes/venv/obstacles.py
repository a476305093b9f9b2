"""What stands where a distribution's files belong, and must go before it is installed again.

An installer that cannot read a RECORD removes nothing before it writes: it then stops at a folder where a file belongs
and at a link to nowhere where a folder does, and writes through a link that leads out of the environment.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from envdoctor.facts.folders import walk
from envdoctor.model.frozen import frozen
from envdoctor.model.pattern import pattern
from envdoctor.probes.venv.distributions import Distribution
from envdoctor.probes.venv.records import RecordIndex

_MAXIMUM_ENTRIES = 200_000
# A folder of such a name is in the place of a file; folders of data may have a dot in theirs.
_FILE_NAME = pattern(r".+\.(?:pyi?|pyc|so(?:\.\d+)*|json|txt|toml|h|typed)")
_OF_NVIDIA = pattern(r"nvidia-(.+?)(?:-cu\d+)?")


@frozen
class Obstacle:
    """One of them."""

    owner: str
    """Whose files belong there, by the folder's name or by the rows that can be read."""
    path: str
    """Relative to the prefix."""
    filled: bool
    """A folder with something in it."""


def obstacles(items: Sequence[Distribution], records: RecordIndex, prefix: str) -> Iterator[Obstacle]:
    """Yield what is in the way of each distribution of the environment whose RECORD is gone, cut or makes no sense."""
    broken = {at for at, _ in records.malformed}
    for at, item in enumerate(items):
        if item.origin != "site-packages" or not item.folder.endswith(".dist-info"):
            continue
        rows = records.rows.get(at, [])
        if at in broken or not item.has_record or not rows:
            roots = _roots(item, (row[0] for row in rows))
            yield from _of(item, roots, partial(_is_anothers, records.owners, at), prefix)


def filled_folders(faults: Iterable[tuple[str, str]], prefix: str) -> Iterator[Obstacle]:
    """Yield those of (owner, path) that are a folder with something in it: an uninstall would delete all of it.

    An absolute path is in a folder of another environment or of the user: nothing that is installed here goes there.
    """
    for owner, path in faults:
        full = f"{prefix}{path}"
        if not path.startswith("/") and os.path.isdir(full) and not os.path.islink(full) and _is_filled(full):  # noqa: PTH112, PTH114
            yield Obstacle(owner=owner, path=path, filled=True)


def _is_anothers(owners: Mapping[str, int], at: int, path: str) -> bool:
    return owners.get(path, at) != at


def _of(item: Distribution, roots: Iterable[str], others: Callable[[str], bool], prefix: str) -> Iterator[Obstacle]:
    for root in roots:
        for path, filled in _under(f"{item.site}/{root}", prefix, others):
            yield Obstacle(owner=item.name, path=path.removeprefix(prefix), filled=filled)


def _roots(item: Distribution, rows: Iterable[str]) -> list[str]:
    """Return the folders below site-packages that are most probably the distribution's alone."""
    found = {item.name.replace("-", "_"): None}
    if match := _OF_NVIDIA.fullmatch(item.name):
        found[f"nvidia/{match[1].replace('-', '_')}"] = None
    for row in rows:
        parts = row.split("/")
        # `nvidia/` is many distributions'.
        depth = 2 if parts[0] == "nvidia" else 1
        if len(parts) > depth and parts[0] not in ("..", "") and not parts[0].endswith((".dist-info", ".data")):
            found["/".join(parts[:depth])] = None
    return list(found)


def _under(root: str, prefix: str, others: Callable[[str], bool]) -> Iterator[tuple[str, bool]]:
    """Yield (path, whether it is a folder with something in it) of what is in the way at `root` and below."""
    if os.path.islink(root):  # noqa: PTH114 - strings: there may be thousands
        inside = os.path.isdir(root) and (os.path.realpath(root) + os.sep).startswith(os.path.realpath(prefix) + os.sep)  # noqa: PTH112
        if not inside:
            yield root, False
    elif os.path.isfile(root):  # noqa: PTH113
        yield root, False
    else:
        yield from _below(root, others)


def _below(root: str, others: Callable[[str], bool]) -> Iterator[tuple[str, bool]]:
    left = _MAXIMUM_ENTRIES
    for folder, inner, names in walk(root):
        left -= len(inner) + len(names)
        if left < 0:
            return
        for name in (*inner, *names):
            path = f"{folder}/{name}"
            if others(path):
                continue
            if os.path.islink(path) and not os.path.exists(path):  # noqa: PTH110, PTH114
                yield path, False
        for name in [name for name in inner if _FILE_NAME.fullmatch(name)]:
            path = f"{folder}/{name}"
            if not others(path) and not os.path.islink(path):  # noqa: PTH114
                inner.remove(name)
                yield path, _is_filled(path)


def _is_filled(path: str) -> bool:
    try:
        return bool(os.listdir(path))  # noqa: PTH208 - whether there is one
    except OSError:
        return True


def in_the_way(site: str, path: str, prefix: str, known: dict[str, str]) -> str:
    """Return the first part of a missing file's path that is there and no folder, relative to the prefix; or empty.

    known: folder as RECORD names it -> the answer, since files go missing by the thousand.
    """
    folder = path.rpartition("/")[0]
    if folder not in known:
        at, known[folder] = site, ""
        for part in folder.split("/"):
            at = os.path.normpath(f"{at}/{part}")
            if not os.path.isdir(at):  # noqa: PTH112 - a string path
                known[folder] = at.removeprefix(prefix) if os.path.lexists(at) else ""
                break
    return known[folder]
