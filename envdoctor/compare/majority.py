"""Many stacks beside each other: what most of them say of each fact, and who says something else."""

from collections.abc import Mapping

from envdoctor.compare.sheet import StackSheet, family_of, rank_of
from envdoctor.model.frozen import frozen


@frozen
class Stated:
    """One answer to a fact, and who gives it."""

    value: str
    """Empty for "none"; of what could not be read the reason."""
    who: tuple[str, ...]
    """In the order in which they were given."""


@frozen
class ComparedFact:
    """One fact in which not all agree, or that some could not read."""

    fact: str
    usual: Stated
    """What most say; of several that are said equally often, what the first of them says."""
    settled: bool
    """More say the usual than any other value. False is a tie: nobody can say which of them is wrong."""
    others: tuple[Stated, ...]
    """What else is said, the most frequent first."""
    unread: tuple[Stated, ...] = ()
    """Reasons, and whose value is therefore not compared."""


@frozen
class Agreement:
    """Stacks, compared."""

    members: tuple[str, ...]
    groups: tuple[tuple[str, ...], ...]
    """Those whose sheets are equal, the largest group first."""
    rows: tuple[ComparedFact, ...]
    """What decides most first; facts in which all agree are not among them."""

    @property
    def differs(self) -> bool:
        """Tell whether two of them say different things of one fact."""
        return any(row.others for row in self.rows)

    @property
    def odd(self) -> tuple[str, ...]:
        """Who says something else than most of a fact; in a tie all that do not say the first value."""
        found = {who for row in self.rows for other in row.others for who in other.who}
        return tuple(member for member in self.members if member in found)

    @property
    def settled(self) -> bool:
        """Tell whether a majority says what is usual of each fact in which they differ."""
        return all(row.settled for row in self.rows if row.others)


def compare_all(sheets: Mapping[str, StackSheet]) -> Agreement:
    """Compare the sheets of at least one member, by name. What one could not read is compared among the others."""
    groups: dict[tuple[frozenset[tuple[str, str]], frozenset[tuple[str, str]]], list[str]] = {}
    for who, sheet in sheets.items():
        groups.setdefault((frozenset(sheet.facts.items()), frozenset(sheet.unread.items())), []).append(who)
    order = {who: at for at, who in enumerate(sheets)}
    told = [(tuple(members), sheets[members[0]]) for members in groups.values()]
    rows = [
        row
        for fact in sorted({fact for _, sheet in told for fact in _named(sheet)}, key=rank_of)
        if (row := _row(fact, told, order))
    ]
    ordered = sorted((members for members, _ in told), key=lambda members: (-len(members), order[members[0]]))
    return Agreement(members=tuple(sheets), groups=tuple(ordered), rows=tuple(rows))


def _named(sheet: StackSheet) -> set[str]:
    return {*sheet.facts, *sheet.unread}


def _row(fact: str, told: list[tuple[tuple[str, ...], StackSheet]], order: Mapping[str, int]) -> ComparedFact | None:
    said: dict[str, list[str]] = {}
    gaps: dict[str, list[str]] = {}
    for members, sheet in told:
        reason = sheet.unread.get(fact) or sheet.unread.get(family_of(fact))
        if reason is not None:
            gaps.setdefault(reason, []).extend(members)
        else:
            said.setdefault(sheet.facts.get(fact, ""), []).extend(members)
    if len(said) < 2 and not (gaps and fact == family_of(fact)):
        return None
    stated = [Stated(value=value, who=tuple(sorted(who, key=order.__getitem__))) for value, who in said.items()]
    stated.sort(key=lambda one: (-len(one.who), order[one.who[0]]))
    unread = tuple(Stated(value=why, who=tuple(sorted(who, key=order.__getitem__))) for why, who in gaps.items())
    usual = stated[0] if stated else Stated(value="", who=())
    settled = len(stated) < 2 or len(usual.who) > len(stated[1].who)
    return ComparedFact(fact=fact, usual=usual, settled=settled, others=tuple(stated[1:]), unread=unread)
