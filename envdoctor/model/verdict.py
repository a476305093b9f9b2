"""Findings ordered by cause, and what could not be determined."""

from collections.abc import Iterable, Mapping
from typing import Literal

from envdoctor.exitcodes import ExitCode
from envdoctor.model.finding import SEVERITY_ORDER, Finding, Severity
from envdoctor.model.frozen import frozen, replace

BREAKS_IMPORT = "import:torch"
"""Cause token of a finding without which `import torch` would fail."""
STOPS_PYTHON = "interpreter"
"""Cause token of a finding with which this interpreter does not start, or not as the environment's: uv and pip, which
start it too, can do nothing before that is fixed."""
AreaState = Literal["ok", "note", "warning", "error", "unknown", "not-applicable"]
"""`not-applicable`: there was nothing to look at, which is not the same as "looked at and found well"."""


@frozen
class Skipped:
    """A check that could not tell, and why."""

    code: str
    name: str
    reason: str
    matters: bool = True
    """False when the check does not apply (no profile was given, say): that is not "could not tell"."""
    traceback: str = ""
    """When the check, or the probe whose facts it asked for, crashed; else empty."""


@frozen
class AreaLine:
    """One line of the status box: an area, its state, what the facts say of it."""

    area: str
    state: AreaState
    summary: str


@frozen
class Waived:
    """A finding that a profile or the caller waived, with the reason given."""

    finding: Finding
    reason: str


@frozen
class Verdict:
    """The outcome of every check over one fingerprint."""

    findings: tuple[Finding, ...]
    """Causes first; each cause is followed by its consequences."""
    consequences: Mapping[int, int]
    """Index of a finding -> index of the finding that explains it."""
    skipped: tuple[Skipped, ...] = ()
    waived: tuple[Waived, ...] = ()
    areas: tuple[AreaLine, ...] = ()
    not_checked: tuple[str, ...] = ()
    """What this verdict does not cover, since it is not there to be looked at; each is a part of the last line."""

    def exit_code(self, fail_on: Severity = "error") -> ExitCode:
        """Return FINDINGS at or above `fail_on`, else UNKNOWN when a check that matters could not tell, else OK."""
        limit = SEVERITY_ORDER[fail_on]
        if any(SEVERITY_ORDER[finding.severity] <= limit for finding in self.findings):
            return ExitCode.FINDINGS
        return ExitCode.UNKNOWN if any(skip.matters for skip in self.skipped) else ExitCode.OK


def order_by_cause(findings: Iterable[Finding]) -> tuple[tuple[Finding, ...], dict[int, int]]:
    """Return the findings with each consequence behind its cause, and the map consequence -> cause (indices).

    A finding with several possible causes hangs under the most severe one, the first of them by code and subject. Among
    equally severe causes the one with which Python does not start comes first, then the one that keeps torch from being
    imported, then the one that explains most.
    """
    ranked = sorted(findings, key=lambda item: (SEVERITY_ORDER[item.severity], item.code, item.subject))
    parent = {
        index: cause for index, finding in enumerate(ranked) if (cause := _cause_of(index, finding, ranked)) is not None
    }
    roots = {index: _root(index, parent) for index in range(len(ranked))}
    groups = [
        [index, *(other for other, root in roots.items() if root == index and other != index)]
        for index in range(len(ranked))
        if roots[index] == index
    ]
    ordered = [index for group in sorted(groups, key=lambda group: _weight(group, ranked)) for index in group]
    position = {old: new for new, old in enumerate(ordered)}
    explained = {root: tuple(sorted({ranked[i].code for i, r in roots.items() if r == root != i})) for root in ordered}
    placed = tuple(replace(ranked[old], explains=explained[old]) for old in ordered)
    return placed, {position[index]: position[root] for index, root in roots.items() if root != index}


def _weight(group: list[int], ranked: list[Finding]) -> tuple[int, bool, bool, int]:
    causes = {cause for index in group for cause in ranked[index].causes}
    worst = min(SEVERITY_ORDER[ranked[index].severity] for index in group)
    return (worst, STOPS_PYTHON not in causes, BREAKS_IMPORT not in causes, -len(group))


def _cause_of(index: int, finding: Finding, ranked: list[Finding]) -> int | None:
    wanted = set(finding.symptom_of)
    if not wanted:
        return None
    return next((at for at, other in enumerate(ranked) if at != index and wanted & set(other.causes)), None)


def _root(index: int, parent: Mapping[int, int]) -> int:
    seen = [index]
    while (above := parent.get(seen[-1])) is not None and above not in seen:
        seen.append(above)
    # A circle of findings that explain each other has no first cause; the lowest index stands for it.
    return min(seen) if parent.get(seen[-1]) in seen else seen[-1]
