"""Findings by cause: one group for each first cause, with everything that follows from it."""

from collections.abc import Sequence

from envdoctor.model.finding import Finding
from envdoctor.model.frozen import frozen, replace
from envdoctor.model.verdict import Verdict


@frozen
class CauseGroup:
    """A cause and its consequences."""

    cause: Finding
    consequences: tuple[Finding, ...]
    parts: tuple["CauseGroup", ...] = ()
    """Other causes that the same commands fix."""


def by_cause(verdict: Verdict) -> tuple[CauseGroup, ...]:
    """Return the groups in the verdict's order."""
    followers: dict[int, list[Finding]] = {}
    for index, cause in sorted(verdict.consequences.items()):
        followers.setdefault(cause, []).append(verdict.findings[index])
    groups = [
        CauseGroup(cause=finding, consequences=tuple(followers.get(index, ())))
        for index, finding in enumerate(verdict.findings)
        if index not in verdict.consequences
    ]
    return tuple(groups)


def by_remedy(groups: Sequence[CauseGroup]) -> tuple[CauseGroup, ...]:
    """Return the groups with those that the same commands fix as parts of the first of them."""
    first: dict[tuple[str, ...], int] = {}
    made: list[CauseGroup] = []
    for group in groups:
        commands = group.cause.remediation.commands
        at = first.get(commands) if commands else None
        if at is None:
            first.setdefault(commands, len(made))
            made.append(group)
        else:
            made[at] = replace(made[at], parts=(*made[at].parts, group))
    return tuple(made)


def shared(groups: Sequence[CauseGroup]) -> tuple[int, int]:
    """Return (commands that fix more than one cause, causes that they fix), both 0 where each has its own."""
    several = [group for group in by_remedy(groups) if group.parts]
    commands = sum(len(group.cause.remediation.commands) for group in several)
    return commands, sum(1 + len(group.parts) for group in several)


def primary(groups: Sequence[CauseGroup]) -> CauseGroup | None:
    """Return the group to fix first: the leading error, when it explains others; a list of equals has none."""
    leads = bool(groups) and groups[0].cause.severity == "error" and bool(groups[0].consequences)
    return groups[0] if leads else None
