"""The file names of wheels by their sha256, remembered: a lock states hashes, and a wheel's tags are in its name.

That a name goes with a hash never changes. Known for every hash of a lock's entry, it tells the wheel that fits best
without asking an index.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from packaging.tags import Tag

from envdoctor.facts.host import Host
from envdoctor.facts.memo_file import memo_path, read_own, write_memo
from envdoctor.standards.lock import LockedPackage
from envdoctor.wheels import wheel_tags

_MAXIMUM = 8 * 1024 * 1024
_MAXIMUM_ENTRIES = 20_000


class WheelNames:
    """What is known, and what is learned now."""

    def __init__(self, path: Path | None = None) -> None:
        """Read what is known; a memo that is damaged, or that another user wrote, says nothing."""
        self._path = path
        self._learned = False
        try:
            told = json.loads(read_own(path, _MAXIMUM)) if path else {}
            self._known = {str(digest): str(name) for digest, name in told.items()}
        except (OSError, ValueError, AttributeError, RecursionError):
            self._known = {}

    @classmethod
    def of(cls, host: Host) -> "WheelNames":
        """Return what this user's earlier commands saw."""
        return cls(memo_path("wheel-names", Path("/"), host))

    def learn(self, digest: str, filename: str) -> None:
        """Note the name of a wheel."""
        if self._known.get(digest) != filename:
            self._known[digest] = filename
            self._learned = True

    def name_of(self, package: LockedPackage) -> str:
        """Return the file name of a package's one wheel; empty where several are locked, or it is not known."""
        return self._known.get(package.hashes[0], "") if len(package.hashes) == 1 else ""

    def best(self, package: LockedPackage, order: Mapping[Tag, int]) -> str:
        """Return the hash of the wheel that fits best; empty when not every name is known, or none fits."""
        names = [(self._known.get(digest, ""), digest) for digest in package.hashes]
        if not all(name for name, _ in names):
            return ""
        ranked = _ranked(names, package, order)
        return min(ranked)[1] if ranked else ""

    def save(self) -> None:
        """Write it down where something is new; the longest known give way."""
        if not self._learned or self._path is None:
            return
        kept = dict(list(self._known.items())[-_MAXIMUM_ENTRIES:])
        try:
            write_memo(self._path, json.dumps(kept).encode())
        except OSError:
            return  # the next plan asks the indexes again


def _ranked(
    names: Iterable[tuple[str, str]], package: LockedPackage, order: Mapping[Tag, int]
) -> list[tuple[tuple[int, tuple[int, str]], str]]:
    return [
        (key, digest)
        for name, digest in names
        if (key := wheel_tags.rank(name, package.name, package.version, order)) is not None
    ]
