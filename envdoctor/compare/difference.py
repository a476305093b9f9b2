"""Two stacks side by side: what each says of itself, subject by subject, and where they differ."""

from collections.abc import Iterator, Mapping
from typing import Literal

from envdoctor.model.frozen import field, frozen

Kind = Literal["changed", "only in A", "only in B"]

AREAS = ("torch", "libraries", "files", "packages", "start-up", "sources", "environment", "caches", "machine")
"""In the order in which they decide what runs."""


@frozen
class Property:
    """What a side says of one subject."""

    shown: str
    """Empty when it says that there is nothing."""
    facets: Mapping[str, frozenset[str]]
    """Facet -> the values it may have; a profile may allow several. Two traits agree when they share a value of every
    facet that both state."""
    span: tuple[int, int] | None = None
    """A range of sizes, which agrees with every range it overlaps."""
    rank: int = 9
    """0 for what matters most in its area."""


@frozen
class Area:
    """All a side says in one area."""

    traits: Mapping[str, Property]
    """By subject."""
    absent: Property | None = None
    """What it means when a subject is not among them; None when the side then says nothing of it."""
    unread: str = ""
    """Why the area could not be read; empty when it was."""


@frozen
class ComparableStack:
    """One stack: a venv, a fingerprint, a profile, a former generation of a venv."""

    label: str
    kind: str
    digest: str | None
    """Of the stack; None when it is not known."""
    areas: Mapping[str, Area]
    """An area that is missing is one this kind of side says nothing about."""


@frozen
class Difference:
    """One subject in which the sides differ."""

    area: str
    kind: Kind
    subject: str
    a: str
    """What A says; empty for what only B has."""
    b: str


@frozen
class Comparison:
    """Two sides, compared."""

    a: ComparableStack
    b: ComparableStack
    differences: tuple[Difference, ...]
    """What matters most first."""
    unread: Mapping[str, str] = field(default_factory=dict)
    """Area -> why it could not be compared although both sides should say something."""

    @property
    def digests(self) -> Literal["equal", "different", "unknown"]:
        """Tell how the digests of the two stacks compare."""
        if not self.a.digest or not self.b.digest:
            return "unknown"
        return "equal" if self.a.digest == self.b.digest else "different"


def compare(a: ComparableStack, b: ComparableStack) -> Comparison:
    """Compare every area that both sides speak of."""
    found: dict[str, list[Difference]] = {}
    unread: dict[str, str] = {}
    for name in AREAS:
        one, other = a.areas.get(name), b.areas.get(name)
        if one is None or other is None:
            continue
        gaps = [f"{side}: {area.unread}" for side, area in (("A", one), ("B", other)) if area.unread]
        if gaps:
            unread[name] = "; ".join(gaps)
        else:
            found[name] = [item for _, item in sorted(_of_area(name, one, other), key=_importance)]
    # Another version has other files: said once is enough.
    told = {item.subject for item in found.get("packages", ())}
    found["files"] = [item for item in found.get("files", ()) if item.subject not in told]
    ordered = tuple(item for name in AREAS for item in found.get(name, ()))
    return Comparison(a=a, b=b, differences=ordered, unread=unread)


def _importance(found: tuple[int, Difference]) -> tuple[int, str]:
    return found[0], found[1].subject


def _of_area(name: str, a: Area, b: Area) -> Iterator[tuple[int, Difference]]:
    for subject in {*a.traits, *b.traits}:
        one, other = a.traits.get(subject, a.absent), b.traits.get(subject, b.absent)
        if one is None or other is None or _agree(one, other):
            continue
        kind: Kind = "changed" if one.shown and other.shown else ("only in A" if one.shown else "only in B")
        yield min(one.rank, other.rank), Difference(area=name, kind=kind, subject=subject, a=one.shown, b=other.shown)


def _agree(one: Property, other: Property) -> bool:
    if one.span and other.span and (one.span[1] < other.span[0] or other.span[1] < one.span[0]):
        return False
    return all(one.facets[facet] & other.facets[facet] for facet in one.facets.keys() & other.facets.keys())
