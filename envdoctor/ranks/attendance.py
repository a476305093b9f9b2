"""What a rank says of itself when it comes, and what rank 0 makes of all of them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from envdoctor.compare.majority import Agreement, compare_all
from envdoctor.compare.sheet import StackSheet
from envdoctor.model.codec import CodecError, decode
from envdoctor.model.frozen import frozen, replace
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
    """Ranks that did not come, or did not say what their stack is."""
    ended: tuple[int, ...] = ()
    """Ranks that came and ended before all were there."""
    waited: float = 0.0
    """Seconds."""

    @property
    def refused(self) -> tuple[int, ...]:
        """Ranks whose own verdict is that they do not start."""
        return tuple(rank for rank, one in sorted(self.came.items()) if one.code)

    @property
    def code(self) -> int:
        """Return the exit code: 1 where stacks differ or one is not fit, 3 where not all could be compared."""
        if self.agreement.differs or self.refused:
            return DIFFERENT
        return NOT_COMPARED if self.missing or self.ended else 0


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
    size: int,
    came: Mapping[int, Attendance],
    sheets: Mapping[str, StackSheet],
    ended: Iterable[int] = (),
    waited: float = 0.0,
    ignored: Sequence[str] = (),
) -> JobVerdict:
    """Compare the ranks that came; ignored: facts that may differ."""
    left = tuple(sorted(set(ended) - set(came)))
    known = {digest: _without(sheet, ignored) for digest, sheet in sheets.items()}
    compared = {str(rank): known[one.sheet] for rank, one in sorted(came.items()) if one.sheet in known}
    agreement = compare_all(compared)
    silent = {rank for rank, one in came.items() if not one.code and one.sheet not in known}
    missing = tuple(rank for rank in range(size) if rank in silent or (rank not in came and rank not in left))
    return JobVerdict(
        size=size,
        came=dict(came),
        agreement=agreement,
        missing=missing,
        ended=left,
        waited=waited,
    )


def _without(sheet: StackSheet, ignored: Sequence[str]) -> StackSheet:
    if not ignored:
        return sheet
    return StackSheet(
        facts={name: value for name, value in sheet.facts.items() if name not in ignored}, unread=sheet.unread
    )
