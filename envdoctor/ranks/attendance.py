"""What a rank says of itself when it comes, and what rank 0 makes of all of them."""

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from envdoctor.compare.majority import Agreement, compare_all
from envdoctor.compare.sheet import OF_DIGEST, StackSheet, family_of
from envdoctor.model.codec import CodecError, decode
from envdoctor.model.frozen import frozen, replace
from envdoctor.ranks.job import RankedJob
from envdoctor.ranks.wire import ForeignError
from envdoctor.standards.bounded_json import loads

_TEXT, _FACT, _FACTS = 400, 2_000, 20_000
DIFFERENT, NOT_COMPARED = 1, 3
"""Exit codes (ExitCode.FINDINGS and UNKNOWN)."""


@frozen
class Attendance:
    """One rank, as it says itself."""

    rank: int
    host: str
    prefix: str
    """The environment that it runs from."""
    code: int
    """The exit code of its own verdict; 0: it would start."""
    found: tuple[str, ...]
    """Codes of its own findings."""
    sheet: str
    """Digest of its sheet; empty where it could not be examined."""


@frozen
class JobVerdict:
    """What the ranks of a job are beside each other."""

    size: int
    came: Mapping[int, Attendance]
    """By rank."""
    agreement: Agreement
    """Of the ranks that have a sheet, by their numbers as text."""
    missing: tuple[int, ...] = ()
    """Ranks that did not come."""
    unexamined: tuple[int, ...] = ()
    """Ranks that came, and start without a verdict on their own environment."""
    ended: tuple[int, ...] = ()
    """Ranks that came and ended before all were there."""
    required: bool = False
    """Ranks that did not meet do not start."""
    unmatched: tuple[str, ...] = ()
    """Facts that may differ, of which no rank says anything."""
    waited: float = 0.0
    """Seconds."""

    @property
    def refused(self) -> tuple[int, ...]:
        """Ranks whose own verdict is that they do not start."""
        return tuple(rank for rank, one in sorted(self.came.items()) if one.code)

    @property
    def partial(self) -> bool:
        """Tell whether not all ranks were compared."""
        return bool(self.missing or self.ended or self.unexamined)

    @property
    def code(self) -> int:
        """Return the exit code: 1 where stacks differ or one is not fit, 3 where all were to be compared and were not.

        What was not seen ends no job that does not ask for it.
        """
        if self.agreement.differs or self.refused:
            return DIFFERENT
        return NOT_COMPARED if self.partial and self.required else 0


def attendance_of(told: Mapping[str, Any]) -> Attendance:
    """Return what a greeting says. Raises ForeignError where it does not say it in our form."""
    try:
        one: Attendance = decode(Attendance, told)
    except CodecError as error:
        raise ForeignError(str(error)) from error
    return replace(
        one,
        host=one.host[:_TEXT],
        prefix=one.prefix[:_TEXT],
        found=tuple(code[:_TEXT] for code in one.found[:_TEXT]),
        sheet=one.sheet[:_TEXT],
    )


def sheet_of_text(text: str) -> StackSheet:
    """Return a sheet that a rank sent. Raises ForeignError where it is not in our form, or larger than a stack is."""
    try:
        sheet: StackSheet = decode(StackSheet, loads(text, 4 * _FACTS))
    except ValueError as error:
        raise ForeignError(str(error)) from error
    if len(sheet.facts) + len(sheet.unread) > _FACTS:
        raise ForeignError("too many facts")
    facts, unread = (
        {name[:_FACT]: value[:_FACT] for name, value in given.items()} for given in (sheet.facts, sheet.unread)
    )
    return StackSheet(facts=facts, unread=unread)


def judged(
    job: RankedJob,
    came: Mapping[int, Attendance],
    sheets: Mapping[str, StackSheet],
    ended: Iterable[int] = (),
    waited: float = 0.0,
    ignored: Sequence[str] = (),
) -> JobVerdict:
    """Compare the ranks that came; ignored: facts that may differ."""
    left = tuple(sorted(set(ended) - set(came)))
    whole = {one.sheet: sheets[one.sheet] for one in came.values() if one.sheet in sheets}
    known = _without(whole, ignored)
    compared = {str(rank): known[one.sheet] for rank, one in sorted(came.items()) if one.sheet in known}
    said = {fact for sheet in whole.values() for fact in (*sheet.facts, *sheet.unread)}
    return JobVerdict(
        size=job.size,
        came=dict(came),
        agreement=compare_all(compared),
        missing=tuple(rank for rank in range(job.size) if rank not in came and rank not in left),
        unexamined=tuple(rank for rank, one in sorted(came.items()) if not one.code and one.sheet not in known),
        ended=left,
        waited=waited,
        required=job.required,
        unmatched=tuple(fact for fact in dict.fromkeys(ignored) if not {fact, family_of(fact)} & said),
    )


def _without(sheets: Mapping[str, StackSheet], ignored: Sequence[str]) -> dict[str, StackSheet]:
    """Return the sheets without facts that may differ, and without the digest where only those explain that it does."""
    dropped = set(ignored)
    of_digest = sorted(fact for fact in dropped if family_of(fact) in OF_DIGEST)
    stacks: dict[tuple[str, ...], set[str]] = {}
    for sheet in sheets.values():
        alike = tuple(sheet.facts.get(fact, "") for fact in of_digest)
        stacks.setdefault(alike, set()).add(sheet.facts.get("stack", ""))
    if len(stacks) > 1 and all(len(digests) == 1 for digests in stacks.values()):
        dropped.add("stack")
    return {digest: _without_facts(sheet, dropped) for digest, sheet in sheets.items()} if dropped else dict(sheets)


def _without_facts(sheet: StackSheet, dropped: Container[str]) -> StackSheet:
    facts, unread = (
        {name: value for name, value in given.items() if name not in dropped} for given in (sheet.facts, sheet.unread)
    )
    return StackSheet(facts=facts, unread=unread)
