"""Findings by cause: one group for each first cause, with everything that follows from it."""

from envdoctor.model.finding import Finding
from envdoctor.model.frozen import frozen
from envdoctor.model.verdict import Verdict


@frozen
class Group:
    """A cause and its consequences."""

    cause: Finding
    consequences: tuple[Finding, ...]


def by_cause(verdict: Verdict) -> tuple[Group, ...]:
    """Return the groups in the verdict's order."""
    followers: dict[int, list[Finding]] = {}
    for index, cause in sorted(verdict.consequences.items()):
        followers.setdefault(cause, []).append(verdict.findings[index])
    groups = [
        Group(cause=finding, consequences=tuple(followers.get(index, ())))
        for index, finding in enumerate(verdict.findings)
        if index not in verdict.consequences
    ]
    return tuple(groups)


def primary(groups: tuple[Group, ...]) -> Group | None:
    """Return the group to mend first: the leading error, when it explains others; a list of equals has none."""
    leads = bool(groups) and groups[0].cause.severity == "error" and bool(groups[0].consequences)
    return groups[0] if leads else None
