"""What a repair is going to do: which distributions go, which are installed again, and why; pure."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from packaging.version import Version

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.damage import site_relative
from envdoctor.analysis.file_conflicts import file_conflicts
from envdoctor.errors import RestoreError
from envdoctor.model.frozen import frozen
from envdoctor.model.plan import PlannedPackage, VenvUser
from envdoctor.model.wording import counted
from envdoctor.probes.venv.distributions import Distribution
from envdoctor.probes.venv.own_packages import asked_again, is_from_elsewhere, local_wheel, origin
from envdoctor.stack.owner_graph import Graph, cover
from envdoctor.standards.lock import LockedPackage

# From here on a restore writes about as much, and leaves nothing of the old venv's history behind.
_MOST = 0.5


@frozen
class Conflict:
    """One set of distributions that own the same paths with different contents, and the one that is wanted."""

    owners: tuple[str, ...]
    wanted: str
    """Empty when it is not known."""
    told_by: str
    path: str
    """One of the paths."""
    kept: frozenset[str] = frozenset()
    """Owners that are not wanted and stay all the same, since another distribution requires them."""
    overwritten: bool = False
    """Some of the paths hold the contents of an owner that is not wanted, or of none."""


@frozen
class Removal:
    """A distribution that is uninstalled, because another one is the wanted owner of its paths."""

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
    last: bool = False
    """Installed after all others: it is the wanted owner of paths that another one, which stays, writes too."""


@frozen
class Changes:
    """What a repair changes in a venv; empty when it is whole."""

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
    changes: Changes
    packages: tuple[PlannedPackage, ...]
    """Pinned ones, with where each wheel comes from; the others come from the configured sources."""
    total_packages: int
    total_bytes: int
    restore_instead: str
    """Why a full restore is the better choice; empty when it is not."""
    users: tuple[VenvUser, ...]
    keep: str
    """Where the venv as it is now will be kept."""
    warnings: tuple[str, ...] = ()
    """What a user has put into files that are installed again, and what becomes of it."""


def conflicts(case: CheckContext) -> list[Conflict]:
    """Return the paths that several distributions own with different contents, for the plan."""
    return [
        Conflict(
            owners=tuple(name for name, _ in conflict.owners),
            wanted=conflict.wanted,
            told_by=conflict.told_by,
            path=site_relative(conflict.paths[0].path),
            # Of a module that only one of them can install, that the others are required is metadata's word alone.
            kept=frozenset() if conflict.module else frozenset(name for name, _ in conflict.required),
            overwritten=bool(conflict.foreign),
        )
        for conflict in file_conflicts(case)
        # A stray file that no code of its owners imports does no harm.
        if not conflict.unused
    ]


def plan_changes(
    found: Graph,
    conflicts: Sequence[Conflict],
    present: Mapping[str, Distribution],
    pins: Mapping[str, LockedPackage],
    torn: Mapping[str, str],
    python: str = "PYTHON",
) -> Changes:
    """Return the smallest set of changes.

    `torn` are distributions whose own metadata is damaged, each with what is wrong. Raises RestoreError when a
    reinstall would decide between owners of which the wanted one is not known, or a damaged distribution did not come
    from an index.
    """
    unwanted = _unwanted(conflicts, pins)
    reasons = dict(torn)
    for name, package in pins.items():
        if name not in present:
            reasons[name] = "is missing"
        elif Version(present[name].version) != Version(package.version):
            reasons[name] = f"is {present[name].version}"
    gone = frozenset(unwanted)
    changed = frozenset(name for name in reasons if name in present)
    needed = found.broken(gone) | found.lost(gone | changed)
    overwritten = _overwritten(conflicts, frozenset())
    chosen = cover(found, needed, frozenset(reasons) | overwritten.keys(), gone)
    # Of two owners that both stay, the wanted one is written after the other, whatever that one is reinstalled for.
    last = _overwritten(conflicts, chosen)
    reasons |= {name: reason for name, reason in last.items() if name not in reasons}
    chosen |= last.keys()
    for name in chosen - reasons.keys():
        reasons[name] = _reason(found, name, gone)
    for name in sorted(chosen):
        _refuse_unreachable(name, present, pins, python)
    _refuse_undecided(conflicts, chosen, pins)
    return Changes(
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
                wheel="" if name in pins else local_wheel(present[name]),
                last=name in last,
            )
            for name in sorted(chosen)
        ),
    )


def restore_instead(changes: Changes, total: int, packages: int) -> str:
    """Return why a restore of all `packages` and `total` bytes is the better choice; empty when it is not."""
    again = sum(item.bytes for item in changes.reinstalls)
    many = len(changes.reinstalls)
    if again <= total * _MOST and many <= packages * _MOST:
        return ""
    most = counted(many, "package", "is", "are") if many > packages * _MOST else "more than half of its bytes are"
    return f"{most} to be installed again, so a full restore is cheaper"


def _unwanted(conflicts: Sequence[Conflict], pins: Mapping[str, LockedPackage]) -> dict[str, str]:
    unwanted: dict[str, str] = {}
    for conflict in conflicts:
        for name in conflict.owners if conflict.wanted else ():
            if name != conflict.wanted and name not in conflict.kept:
                unwanted[name] = f"{conflict.wanted} is the wanted owner of their shared files ({conflict.told_by})"
    both = sorted((unwanted.keys() & pins.keys()) | (unwanted.keys() & {conflict.wanted for conflict in conflicts}))
    if both:
        raise RestoreError(
            f"{' and '.join(both)} must be uninstalled for one reason and stay for another, so the wanted state is not "
            "known",
            "uninstall the distributions that are not wanted, then run `envdoctor repair` again",
        )
    return unwanted


def _overwritten(conflicts: Sequence[Conflict], chosen: AbstractSet[str]) -> dict[str, str]:
    """Return wanted owner -> reason where an owner that stays overwrote its files, or is going to."""
    return {
        conflict.wanted: f"{' and '.join(sorted(conflict.kept))} also writes some of its files, and stays since it is "
        "required"
        for conflict in conflicts
        if conflict.wanted and conflict.kept and (conflict.overwritten or conflict.kept & chosen)
    }


def _refuse_undecided(
    conflicts: Sequence[Conflict], chosen: AbstractSet[str], pins: Mapping[str, LockedPackage]
) -> None:
    """Refuse to reinstall one of several owners when the wanted one is not known: it would get the shared files."""
    for conflict in conflicts:
        if conflict.wanted or not chosen & set(conflict.owners):
            continue
        names = " and ".join(conflict.owners)
        profile = (
            "" if pins else ", or name the profile that pins the wanted one (`envdoctor repair --profile PROFILE`)"
        )
        raise RestoreError(
            f"{names} both own {conflict.path} with different contents, and it is not known which one is wanted",
            f"uninstall the one that is not wanted, then run `envdoctor repair` again{profile}",
        )


def _reason(found: Graph, name: str, gone: frozenset[str]) -> str:
    broken = found.broken(gone)
    own = [path for path in found.paths.get(name, ()) if path in broken]
    shared = [path for path in found.paths.get(name, ()) if path in found.lost(gone)]
    parts = []
    if own:
        parts.append(
            f"{len(own)} of its files are not as recorded"
            if len(own) > 1
            else f"{own[0].rpartition('/')[2]} is not as recorded"
        )
    if set(shared) - set(own):
        parts.append(f"{len(set(shared) - set(own))} more go with what is removed")
    return "; ".join(parts)


def _refuse_unreachable(
    name: str, present: Mapping[str, Distribution], pins: Mapping[str, LockedPackage], python: str
) -> None:
    if name in pins:
        return
    item = present.get(name)
    if item is None or not item.version:
        raise RestoreError(
            f"{name} is damaged and states no version, so it is not known what to install",
            "remove its dist-info folder and install it again",
        )
    if is_from_elsewhere(item):
        raise RestoreError(
            f"{name} {item.version} ({origin(item)}) is damaged, and no index has it",
            f"install it again yourself: `uv pip install --python {python} --no-deps --reinstall-package {name} "
            f"{asked_again(item)}`, then repair the rest",
        )
