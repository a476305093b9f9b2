"""The difference of two ends, cut into changes that can be made one without the other.

A change is a distribution with all of its files, files of one that is the same at both ends, a file that nobody owns,
the base interpreter, or a variable. What requires each other's new release is one change: torch and its CUDA libraries.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from envdoctor.model.frozen import frozen
from envdoctor.standards.names import normalized
from envdoctor.standards.need import holds, meets, parse_need
from envdoctor.trial.contested import ContestedPaths
from envdoctor.trial.delta import Forces
from envdoctor.trial.side import Installed, Side, owners

ChangeKind = Literal["interpreter", "distribution", "files", "file", "variable", "commit", "cache"]
_FIRST = {"torch": 1}
_STACK = frozenset(
    {"triton", "transformers", "accelerate", "datasets", "safetensors", "numpy", "flash-attn", "xformers"}
)
_START_UP = (".pth", "sitecustomize.py", "usercustomize.py")
_LAST = {"variable": 7, "commit": 8, "cache": 9}
_SHOWN = 3


@frozen
class StackChange:
    """One change from the good end to the bad one."""

    kind: ChangeKind
    name: str
    """A distribution, a path, a variable, a commit; unlike that of any other change of its kind."""
    before: str
    """At the good end, for people; empty where there was nothing."""
    after: str
    members: tuple[str, ...] = ()
    """The distributions that change; of `files`, the one they belong to."""
    note: str = ""
    """What else a person should know: whose files it replaces, which files are gone."""
    rank: int = 6
    """0 for what decides first."""
    order: int = 0
    """Among those of one rank."""

    @property
    def key(self) -> str:
        """Return what names it in the journal."""
        return f"{self.kind} {self.name}"

    def __str__(self) -> str:
        """Return one line for people."""
        if self.kind == "files":
            text = f"files of {self.name} {self.after}"
        elif self.kind == "commit":
            text = f"commit {self.name[:12]}: {self.after}"
        elif not self.before:
            text = f"{self.name}: added, {self.after}" if self.after else f"{self.name}: added"
        elif not self.after:
            text = f"{self.name}: removed, was {self.before}"
        else:
            text = f"{self.name}: {self.before} -> {self.after}"
        return f"{text}; {self.note}" if self.note else text


@frozen
class StackChanges:
    """All of them, in the order in which they decide, and what each path of the venv depends on."""

    items: tuple[StackChange, ...]
    forces: Forces
    paths: Mapping[str, frozenset[int]]
    """Path at which the ends differ -> the changes it belongs to."""

    def named(self, chosen: Iterable[int]) -> list[str]:
        """Return their keys, sorted."""
        return sorted(self.items[at].key for at in chosen)


def cut(good: Side, bad: Side, different: Sequence[str], more: Sequence[StackChange] = ()) -> StackChanges:
    """Return the changes between two ends whose files differ at those paths; `more` are those that are no files."""
    changed = {
        name
        for name in good.installed.keys() | bad.installed.keys()
        if not _same(good.installed.get(name), bad.installed.get(name))
    }
    contested = ContestedPaths(good, bad)
    homes = {path: home for path in different if (home := _homes(good, bad, path, changed, contested))}
    unclear = [home for path, home in homes.items() if len(home) > 1 and not contested.clear(path)]
    groups = _merged(good, bad, changed, unclear)
    home_of = {member: group for group in groups for member in group}
    made: dict[str, StackChange] = {}
    at_path: dict[str, set[str]] = {}
    for group in groups:
        made[f"distribution {group[0]}"] = _distributions(good, bad, group)
    for path, home in homes.items():
        for name in home:
            kind, _, subject = name.partition(" ")
            key = f"distribution {home_of[subject][0]}" if kind == "distribution" else name
            at_path.setdefault(path, set()).add(key)
            if key not in made:
                made[key] = _loose(good, bad, kind, subject, [at for at, names in homes.items() if name in names])
    if good.base != bad.base:
        made["interpreter"] = StackChange(
            kind="interpreter", name="base interpreter", before=good.base, after=bad.base, rank=0
        )
    ordered = sorted([*made.values(), *more], key=lambda change: (change.rank, change.order, change.key))
    number = {change.key: at for at, change in enumerate(ordered)}
    along = _along(good, bad, changed, {name: number[f"distribution {home_of[name][0]}"] for name in changed})
    return StackChanges(
        items=tuple(ordered),
        forces=Forces(count=len(ordered), along=along | _commits(ordered)),
        paths={path: frozenset(number[made[key].key] for key in keys) for path, keys in at_path.items()},
    )


def _same(one: Installed | None, other: Installed | None) -> bool:
    return one is not None and other is not None and (one.version, one.content) == (other.version, other.content)


def _homes(good: Side, bad: Side, path: str, changed: Collection[str], contested: ContestedPaths) -> tuple[str, ...]:
    """Return the keys of what a path changes with; nothing for an installer's note on what has not changed."""
    claiming = owners((good, bad), path)
    if moving := [name for name in claiming if name in changed]:
        return tuple(f"distribution {name}" for name in moving)
    if claiming:
        if path.rpartition("/")[2] in ("REQUESTED", "INSTALLER", "direct_url.json", "uv_cache.json", "uv_build.json"):
            return ()
        return (f"files {claiming[0] if len(claiming) == 1 else contested.losers(path)[0]}",)
    site = good.tree.site or bad.tree.site
    inner = path.removeprefix(site) if site and path.startswith(site) else path
    top = inner.partition("/")[0]
    return (f"file {site + top if inner != path else path}",)


def _merged(
    good: Side, bad: Side, changed: Collection[str], unclear: Sequence[Collection[str]]
) -> list[tuple[str, ...]]:
    """Return the changed distributions in groups of those that force each other."""
    raw = _along(good, bad, changed, {name: name for name in changed})
    reach = {name: _reached(name, raw) for name in changed}
    groups: dict[str, set[str]] = {name: {name} for name in sorted(changed)}
    for name in sorted(changed):
        for other in reach[name]:
            if name in reach[other]:
                _join(groups, name, other)
    for home in unclear:
        first, *rest = (key.partition(" ")[2] for key in home)
        for other in rest:
            _join(groups, first, other)
    single = {id(group): group for group in groups.values()}
    return [tuple(sorted(group, key=lambda name: (name != "torch", name))) for group in single.values()]


def _join(groups: dict[str, set[str]], one: str, other: str) -> None:
    if groups[one] is not groups[other]:
        groups[one] |= groups[other]
        for name in groups[other]:
            groups[name] = groups[one]


def _reached(start: str, along: Mapping[str, Collection[str]]) -> set[str]:
    found: set[str] = set()
    pending = [start]
    while pending:
        for other in along.get(pending.pop(), ()):
            if other not in found:
                found.add(other)
                pending.append(other)
    return found


def _along(good: Side, bad: Side, changed: Collection[str], number: Mapping[str, Any]) -> dict[Any, frozenset[Any]]:
    """Return what each changed distribution brings along, under the numbers given.

    The new release of one requires the new release of another; and what the old release of another requires of the one
    is no longer met. A requirement that is not met at its own end either forces nothing.
    """
    made: dict[Any, set[Any]] = {}

    def force(one: str, other: str) -> None:
        if number[one] != number[other]:
            made.setdefault(number[one], set()).add(number[other])

    for name in changed:
        for wanted, specifier in _needs(bad, name):
            if wanted in changed and _met(bad, wanted, specifier) and not _met(good, wanted, specifier):
                force(name, wanted)
        for wanted, specifier in _needs(good, name):
            if wanted in changed and _met(good, wanted, specifier) and not _met(bad, wanted, specifier):
                force(wanted, name)
    return {at: frozenset(others) for at, others in made.items()}


def _needs(side: Side, name: str) -> Iterator[tuple[str, str]]:
    item = side.installed.get(name)
    for line in item.requires if item else ():
        need = parse_need(line)
        if need is not None and holds(need.marker, side.markers):
            yield need.name, need.specifier


def _met(side: Side, name: str, specifier: str) -> bool:
    item = side.installed.get(normalized(name))
    return item is not None and meets(item.version, specifier)


def _commits(ordered: Sequence[StackChange]) -> dict[int, frozenset[int]]:
    """Return what each commit brings along: the ones before it."""
    commits = [at for at, change in enumerate(ordered) if change.kind == "commit"]
    return {at: frozenset(commits[:place]) for place, at in enumerate(commits) if place}


def _distributions(good: Side, bad: Side, group: Sequence[str]) -> StackChange:
    first = group[0]
    before, after = _both(good, bad, first)
    notes = []
    if len(group) > 1:
        others = [_step(good, bad, name) for name in group[1:]]
        more = f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
        notes.append(f"with {', '.join(others[:_SHOWN])}{more}, which it needs or which need it")
    if over := _replaced(good, bad, group):
        notes.append(f"it writes files of {', '.join(over)}")
    return StackChange(
        kind="distribution",
        name=first,
        before=before,
        after=after,
        members=tuple(group),
        note="; ".join(notes),
        rank=min(map(_rank, group)),
    )


def _step(good: Side, bad: Side, name: str) -> str:
    before, after = _both(good, bad, name)
    if before and after:
        return f"{name} {before} -> {after}"
    return f"{name} {after}" if after else f"{name} removed"


def _both(good: Side, bad: Side, name: str) -> tuple[str, str]:
    """Return both versions, with where each came from when only that differs; empty where there is none."""
    items = good.installed.get(name), bad.installed.get(name)
    versions = [(item.version or "of unknown version") if item else "" for item in items]
    if versions[0] == versions[1]:
        origins = [f" ({item.origin or 'from an index'})" if item else "" for item in items]
        if origins[0] == origins[1]:
            origins = ["", " with other files"]
        versions = [f"{version}{origin}" for version, origin in zip(versions, origins, strict=True)]
    return versions[0], versions[1]


def _replaced(good: Side, bad: Side, group: Collection[str]) -> list[str]:
    """Return the others that claim a path which a distribution of the group claims at the bad end."""
    found: set[str] = set()
    for path, claiming in bad.claims.items():
        if len(claiming) > 1 and not claiming.keys().isdisjoint(group) and path in good.tree.entries:
            found |= claiming.keys() - set(group)
    return sorted(found)


def _rank(name: str) -> int:
    if name in _FIRST or name.startswith("nvidia-"):
        return _FIRST.get(name, 2)
    return 4 if name in _STACK else 6


def _loose(good: Side, bad: Side, kind: str, subject: str, paths: Sequence[str]) -> StackChange:
    gone = [path for path in paths if path not in bad.tree.entries]
    new = [path for path in paths if path not in good.tree.entries]
    parts = [f"{len(found)} {word}" for found, word in ((gone, "missing"), (new, "added")) if found]
    if altered := len(paths) - len(gone) - len(new):
        parts.append(f"{altered} changed")
    if kind == "files":
        item = bad.installed[subject]
        return StackChange(
            kind="files",
            name=subject,
            before=f"{item.version} whole",
            after=item.version,
            members=(subject,),
            note=f"{', '.join(parts)}: {_first(paths)}",
            rank=min(_rank(subject), 3),
        )
    start_up = subject.endswith(_START_UP)
    return StackChange(
        kind="file",
        name=subject,
        before="" if len(new) == len(paths) else "there",
        after="" if len(gone) == len(paths) else "in no RECORD",
        rank=3 if start_up else 5,
    )


def _first(paths: Sequence[str]) -> str:
    # What a loader looks for says more than a header.
    ordered = sorted(paths, key=lambda path: (".so" not in path, path))
    names = [path.rpartition("/")[2] for path in ordered[:_SHOWN]]
    return ", ".join(names) + (f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else "")
