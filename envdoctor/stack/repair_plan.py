"""What a repair is going to do: which distributions go, which are installed again, and why; pure."""

from collections.abc import Mapping, Sequence

from packaging.version import Version

from envdoctor.errors import RestoreError
from envdoctor.model.frozen import frozen
from envdoctor.model.plan import PlannedPackage, User
from envdoctor.stack.owner_graph import Graph, cover
from envdoctor.standards.lock import LockedPackage
from envdoctor.swap.installed import Installed


@frozen
class Verdict:
    """One set of owners that claim the same paths with different bytes, and the one that is meant."""

    owners: tuple[str, ...]
    wanted: str
    """Empty when it cannot be told."""
    told_by: str
    path: str
    """One of the contested paths."""


@frozen
class Removal:
    """A distribution that goes, because another one is meant to own its paths."""

    name: str
    version: str
    reason: str


@frozen
class Reinstall:
    """A distribution that is installed again."""

    name: str
    version: str
    before: str
    """The version that is there now; empty when it is missing."""
    reason: str
    bytes: int
    """Recorded size of what is there now."""
    wheel: str = ""
    """URL of the local wheel it came from; empty for one that an index or the lock has."""


@frozen
class Mending:
    """The changes that mend a venv; empty ones when it is whole."""

    removals: tuple[Removal, ...]
    reinstalls: tuple[Reinstall, ...]

    @property
    def needed(self) -> bool:
        """Tell whether there is anything to do."""
        return bool(self.removals or self.reinstalls)


@frozen
class RepairPlan:
    """A whole repair, before it runs."""

    target: str
    profile: str
    """Empty: each distribution stays at its version."""
    mending: Mending
    packages: tuple[PlannedPackage, ...]
    """Pinned ones, with where each wheel comes from; the others come from the configured sources."""
    total_packages: int
    total_bytes: int
    restore_instead: str
    """Why a full restore is the better choice; empty when it is not."""
    users: tuple[User, ...]
    keep: str
    """Where the venv as it is now will be kept."""


def mend(
    found: Graph,
    contests: Sequence[Verdict],
    present: Mapping[str, Installed],
    pins: Mapping[str, LockedPackage],
    torn: Mapping[str, str],
) -> Mending:
    """Return the smallest set of changes.

    `torn` are distributions whose own metadata is damaged, each with what is wrong. Raises RestoreError when the owner
    that is meant cannot be told, or a damaged distribution did not come from an index.
    """
    unwanted = _unwanted(contests, pins)
    reasons = dict(torn)
    for name, package in pins.items():
        if name not in present:
            reasons[name] = "is missing"
        elif Version(present[name].version) != Version(package.version):
            reasons[name] = f"is {present[name].version}"
    gone = frozenset(unwanted)
    changed = frozenset(name for name in reasons if name in present)
    needed = found.broken(gone) | found.lost(gone | changed)
    chosen = cover(found, needed, frozenset(reasons), gone)
    for name in chosen - reasons.keys():
        reasons[name] = _reason(found, name, gone)
    for name in sorted(chosen):
        _refuse_unreachable(name, present, pins)
    return Mending(
        removals=tuple(
            Removal(name=name, version=present[name].version if name in present else "", reason=reason)
            for name, reason in sorted(unwanted.items())
        ),
        reinstalls=tuple(
            Reinstall(
                name=name,
                version=pins[name].version if name in pins else present[name].version,
                before=present[name].version if name in present else "",
                reason=reasons[name],
                bytes=found.bytes.get(name, 0),
                wheel="" if name in pins else _wheel(present[name]),
            )
            for name in sorted(chosen)
        ),
    )


def _unwanted(contests: Sequence[Verdict], pins: Mapping[str, LockedPackage]) -> dict[str, str]:
    unwanted: dict[str, str] = {}
    for contest in contests:
        names = " and ".join(contest.owners)
        if not contest.wanted:
            raise RestoreError(
                f"{names} both own {contest.path} with different contents, and it cannot be told which one is meant",
                "name the profile it should be (`envdoctor repair --profile P`), or uninstall the one that is not "
                "meant and repair again",
            )
        for name in contest.owners:
            if name != contest.wanted:
                unwanted[name] = f"{contest.wanted} is meant to own their shared files ({contest.told_by})"
    both = sorted((unwanted.keys() & pins.keys()) | (unwanted.keys() & {contest.wanted for contest in contests}))
    if both:
        raise RestoreError(
            f"{' and '.join(both)} must go for one reason and stay for another, so it cannot be told what is meant",
            "restore the whole profile: `envdoctor restore --profile P`",
        )
    return unwanted


def _reason(found: Graph, name: str, gone: frozenset[str]) -> str:
    broken = found.broken(gone)
    own = [path for path in found.paths[name] if path in broken]
    shared = [path for path in found.paths[name] if path in found.lost(gone)]
    parts = []
    if own:
        parts.append(
            f"{len(own)} of its files are not as recorded" if len(own) > 1 else f"{own[0].name} is not as recorded"
        )
    if set(shared) - set(own):
        parts.append(f"{len(set(shared) - set(own))} more go with what is removed")
    return "; ".join(parts)


def _refuse_unreachable(name: str, present: Mapping[str, Installed], pins: Mapping[str, LockedPackage]) -> None:
    if name in pins:
        return
    item = present.get(name)
    if item is None or not item.version:
        raise RestoreError(
            f"{name} is damaged and its version cannot be told, so it is not known what to install",
            "restore a profile, or remove its dist-info folder and install it again",
        )
    if item.note and not _wheel(item):
        raise RestoreError(
            f"{name} {item.version} ({item.note}) is damaged, and no index has it",
            f"install it again yourself: `uv pip install --no-deps --reinstall-package {name} …`, then repair the rest",
        )


def _wheel(item: Installed) -> str:
    url = item.note.removeprefix("from ")
    return url if url.startswith("file:") and url.endswith(".whl") else ""
