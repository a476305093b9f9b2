"""One package's search for its wheel: the places that were asked, and what was seen on the way that did not fit."""

import hashlib
from collections.abc import Iterable, Mapping

from packaging.tags import Tag

from envdoctor.facts.regular_file import open_regular
from envdoctor.model.frozen import field, mutable, replace
from envdoctor.standards.lock import LockedPackage
from envdoctor.wheels import wheel_tags
from envdoctor.wheels.index import File
from envdoctor.wheels.index_config import IndexConfig
from envdoctor.wheels.urls import Access
from envdoctor.wheels.wheel_file import WheelListing
from envdoctor.wheels.wheel_names import WheelNames
from envdoctor.wheels.wheel_safety import look_into


@mutable
class WheelSearch:
    """One package's search: what was seen on the way that did not fit."""

    package: LockedPackage
    order: Mapping[Tag, int]
    seen: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    strange: dict[str, str] = field(default_factory=dict)
    """Locked hash -> where a wheel of it lies that does not fit the interpreter or the machine."""
    refused: bool = False
    """Some index answered, but not with its files."""
    silent: bool = False
    """Some index did not answer, or could not do so now."""
    offered: dict[str, tuple[File, ...]] = field(default_factory=dict)
    """What each place that was asked has of it."""
    unknown: bool = False
    """uv can have it from some source, but did not say whether its cache does."""
    unsafe: bool = False
    """A wheel with a locked hash holds what must not be installed."""
    preferred: str = ""
    """The place with the best wheel, where several have a locked one; empty where the first that has one is taken."""
    chosen: str = ""
    """The hash of the best wheel, where several are locked; empty where that is not known."""

    @property
    def asked(self) -> LockedPackage:
        """The package with the one hash that is to be installed, where it is known."""
        return replace(self.package, hashes=(self.chosen,)) if self.chosen else self.package

    def places(self, sources: IndexConfig) -> tuple[str, ...]:
        """Return the places to look into, in order."""
        every = (*sources.find_links, *sources.indexes)
        return tuple(sorted(every, key=lambda place: place != self.preferred)) if self.preferred else every

    def best(self, files: Iterable[File], names: WheelNames) -> tuple[tuple[int, tuple[int, str]], str] | None:
        """Return the sort key of the best file with a locked hash (smaller is better), and that hash; None for none."""
        keys = []
        for file in files:
            key = self._rank(file)
            digest = (file.sha256 or _digest(file)) if key is not None or file.sha256 in self.package.hashes else ""
            if digest in self.package.hashes:
                names.learn(digest, file.filename)
                keys += [(key, digest)] if key is not None else []
        return min(keys, default=None)

    def fits(self, files: Iterable[File]) -> bool:
        """Tell whether a file of the locked version that fits the interpreter is among them, whatever its hash."""
        return any(self._rank(file) is not None for file in files)

    def _rank(self, file: File) -> tuple[int, tuple[int, str]] | None:
        return wheel_tags.rank(file.filename, self.package.name, self.package.version, self.order)

    def fitting(self, files: Iterable[File], place: str, access: Access) -> tuple[File, WheelListing] | None:
        """Return the best file with a locked hash, and what is in it; note files of the version that have another."""
        ranked = []
        for file in files:
            key = self._rank(file)
            if key is not None:
                ranked.append((key, file))
            elif (digest := file.sha256 or _digest(file)) in self.package.hashes:
                self.strange.setdefault(digest, f"{place} has {file.filename}")
        for _, file in sorted(ranked, key=lambda pair: pair[0]):
            digest = file.sha256 or _digest(file)
            if digest not in self.package.hashes:
                self.seen.append(f"{place} has {file.filename}, but with sha256 {digest or 'unknown'}")
                continue
            inside = look_into(file, access)
            if not inside.problem:
                self.chosen = digest if len(self.package.hashes) > 1 else ""
                return file, inside
            self.unsafe = True
            self.seen.append(f"{place} has {file.filename} with a locked hash, but {inside.problem}")
        return None


def _digest(file: File) -> str:
    if file.local is None:
        return ""
    try:
        with open_regular(file.local) as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    except OSError:
        return ""  # no file, or none that can be read: it states no hash of the lock
