"""What may go from a cache: pure, over a listing. Protected and used entries stay whatever is asked."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from envdoctor.cache.layout import CacheFile
from envdoctor.cache.manifest import Manifest
from envdoctor.cache.will_hit import Damaged
from envdoctor.model.frozen import frozen

_IN_USE = "a live process uses the cache"
Entry = tuple[str, str]
"""(kind of root, entry below it)."""


@frozen
class Wish:
    """What a clean-up is asked for; an entry goes when one of them wants it."""

    older_than_seconds: float | None = None
    maximum_bytes: int | None = None
    """Of all roots together: the oldest go until the rest fits."""
    damaged: bool = False
    other_keys: bool = False
    """Entries that only manifests of another key list."""


@frozen
class EntryRemoval:
    """One entry that would go."""

    root: str
    entry: str
    kind: str
    files: tuple[str, ...]
    bytes: int
    newest: int
    """Nanoseconds since the epoch."""
    reason: str


@frozen
class CleanupPlan:
    """What a clean-up would do."""

    removals: tuple[EntryRemoval, ...]
    kept: Mapping[str, int]
    """Why entries that were asked for stay -> how many."""

    @property
    def bytes(self) -> int:
        """Return the size of all removals."""
        return sum(removal.bytes for removal in self.removals)


@frozen
class Facts:
    """What a plan is made from."""

    files: Sequence[CacheFile]
    damaged: Sequence[Damaged]
    manifests: Sequence[Manifest]
    key: str
    """Digest of the present environment's key."""
    keep_for: frozenset[str]
    """Profiles whose entries stay."""
    used_roots: frozenset[str]
    """Kinds of roots that a live process uses."""
    now: float
    """Seconds since the epoch."""


def plan(facts: Facts, wish: Wish) -> CleanupPlan:
    """Return what goes and what stays, and why."""
    members: dict[Entry, list[CacheFile]] = {}
    for file in facts.files:
        members.setdefault((file.root, file.entry), []).append(file)
    wanted = _wanted(facts, wish, members)
    protected = _protected(facts)
    removals: list[EntryRemoval] = []
    kept: dict[str, int] = {}
    for entry, reason in wanted.items():
        held = _held(entry, reason, protected, facts)
        if held:
            kept[held] = kept.get(held, 0) + 1
        else:
            removals.append(_removal(entry, members[entry], reason))
    return CleanupPlan(removals=tuple(removals), kept=kept)


def spare(planned: CleanupPlan, used_roots: Collection[str]) -> CleanupPlan:
    """Return the plan without the entries of roots that a live process has come to use since."""
    going = tuple(removal for removal in planned.removals if removal.root not in used_roots)
    stay = len(planned.removals) - len(going)
    kept = {**planned.kept, _IN_USE: planned.kept.get(_IN_USE, 0) + stay} if stay else planned.kept
    return CleanupPlan(removals=going, kept=kept)


def _held(entry: Entry, reason: str, protected: Mapping[Entry, str], facts: Facts) -> str:
    if entry[0] in facts.used_roots:
        return _IN_USE
    if reason != "damaged" and entry in protected:
        return f"profile {protected[entry]} keeps them"
    return ""


def _protected(facts: Facts) -> Mapping[Entry, str]:
    """Return entry -> the profile it is kept for: those of each profile's newest manifest."""
    newest: dict[str, Manifest] = {}
    for manifest in facts.manifests:
        if manifest.profile in facts.keep_for:
            before = newest.get(manifest.profile)
            if before is None or before.made_at < manifest.made_at:
                newest[manifest.profile] = manifest
    return {entry: profile for profile, manifest in newest.items() for entry in _entries(manifest)}


def _entries(manifest: Manifest) -> Iterable[Entry]:
    for file in manifest.files:
        listed = CacheFile(root=file.root, path=file.path, size=file.size, modified=file.modified, mode=file.mode)
        yield listed.root, listed.entry


def _wanted(facts: Facts, wish: Wish, members: Mapping[Entry, list[CacheFile]]) -> dict[Entry, str]:
    """Return entry -> why it should go, the oldest first."""
    newest = {entry: max(file.modified for file in files) for entry, files in members.items()}
    by_age = sorted(members, key=lambda entry: (newest[entry], entry))
    wanted: dict[Entry, str] = {}
    if wish.damaged:
        wanted |= {(item.root, item.entry): "damaged" for item in facts.damaged if (item.root, item.entry) in members}
    if wish.other_keys:
        others = _of_other_keys(facts)
        wanted |= {entry: "of another key" for entry in by_age if entry in others and entry not in wanted}
    if wish.older_than_seconds is not None:
        limit = (facts.now - wish.older_than_seconds) * 1e9
        wanted |= {entry: "old" for entry in by_age if newest[entry] < limit and entry not in wanted}
    if wish.maximum_bytes is not None:
        sizes = {entry: sum(file.size for file in files) for entry, files in members.items()}
        protected = _protected(facts)
        left = sum(sizes.values()) - sum(
            sizes[entry] for entry, reason in wanted.items() if not _held(entry, reason, protected, facts)
        )
        for entry in by_age:
            if left <= wish.maximum_bytes:
                break
            if entry not in wanted:
                wanted[entry] = "over the size"
                left -= 0 if _held(entry, wanted[entry], protected, facts) else sizes[entry]
    return wanted


def _of_other_keys(facts: Facts) -> set[Entry]:
    ours = {entry for manifest in facts.manifests if manifest.key_digest == facts.key for entry in _entries(manifest)}
    others = {entry for manifest in facts.manifests if manifest.key_digest != facts.key for entry in _entries(manifest)}
    return others - ours


def _removal(entry: Entry, files: Sequence[CacheFile], reason: str) -> EntryRemoval:
    return EntryRemoval(
        root=entry[0],
        entry=entry[1],
        kind=files[0].kind,
        files=tuple(file.path for file in files),
        bytes=sum(file.size for file in files),
        newest=max(file.modified for file in files),
        reason=reason,
    )
