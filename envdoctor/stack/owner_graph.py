"""Who owns which file of a venv, and the smallest set of reinstalls that makes every file its owner's again.

An uninstall deletes every path of a RECORD, shared or not; a reinstall brings all of its own back. So what is removed
decides which of the others must be written again.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from envdoctor.model.frozen import frozen


class RecordRow(NamedTuple):
    """One row of a RECORD."""

    owner: str
    path: str
    """Relative to the venv."""
    size: int


@frozen
class Graph:
    """Which distributions own which path, and whose contents are on disk."""

    owners: Mapping[str, Mapping[str, bool]]
    """Path -> owner -> whether the file is as that owner's RECORD says."""
    paths: Mapping[str, tuple[str, ...]]
    """Owner -> its paths."""
    bytes: Mapping[str, int]
    """Owner -> recorded size of its files."""

    def broken(self, without: AbstractSet[str]) -> frozenset[str]:
        """Return the paths that are nobody's as recorded, once the owners in `without` are left aside."""
        found = set()
        for path, owners in self.owners.items():
            others = [kept for name, kept in owners.items() if name not in without]
            if others and not any(others):
                found.add(path)
        return frozenset(found)

    def lost(self, removed: AbstractSet[str]) -> frozenset[str]:
        """Return the paths of others that go when those distributions are uninstalled."""
        return frozenset(
            path for name in removed for path in self.paths.get(name, ()) if set(self.owners[path]) - removed
        )


def graph(entries: Sequence[RecordRow], bad: AbstractSet[tuple[str, str]]) -> Graph:
    """Return the graph of these rows; `bad` are the (owner, path) whose file is not as that owner recorded."""
    owners: dict[str, dict[str, bool]] = defaultdict(dict)
    paths: dict[str, list[str]] = defaultdict(list)
    sizes: dict[str, int] = defaultdict(int)
    for owner, path, size in entries:
        owners[path][owner] = (owner, path) not in bad
        paths[owner].append(path)
        sizes[owner] += size
    return Graph(owners=owners, paths={name: tuple(found) for name, found in paths.items()}, bytes=sizes)


def cover(
    found: Graph, needed: AbstractSet[str], forced: AbstractSet[str], removed: AbstractSet[str]
) -> frozenset[str]:
    """Return the distributions to reinstall so that each needed path is written by one of its owners.

    `forced` are reinstalled anyway, and what they write is covered. Of several owners of a path the one that covers the
    most is taken, then the smallest: few reinstalls of few bytes. The greedy choice is the exact one where no path has
    more than one surviving owner, which is so for all but shared files of equal content.
    """
    chosen = set(forced)
    left = {path for path in needed if not chosen & set(found.owners[path])}
    while left:
        counts: dict[str, int] = defaultdict(int)
        for path in left:
            for name in found.owners[path].keys() - removed:
                counts[name] += 1
        best = min(counts, key=lambda name: (-counts[name], found.bytes.get(name, 0), name))
        chosen.add(best)
        left -= set(found.paths[best])
    return frozenset(chosen)
