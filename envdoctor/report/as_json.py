"""The report a program reads: one JSON document whose shape is fixed by schema/check-1.json."""

from collections.abc import Mapping
from typing import Any

from envdoctor.app.places import SaidAt
from envdoctor.model.codec import encode
from envdoctor.model.finding import Finding, Severity
from envdoctor.model.header import Header
from envdoctor.model.verdict import Skipped, Verdict
from envdoctor.report.groups import CauseGroup, by_cause, shared


def document(
    header: Header,
    verdict: Verdict,
    *,
    fail_on: Severity = "error",
    places: Mapping[int, SaidAt] | None = None,
    stack: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the document without its head: each cause before its consequences, which point back by `caused_by`.

    places: index in the verdict's findings -> the line that is about it. stack: see `stack_document.py`.
    """
    groups = by_cause(verdict)
    lines = {id(verdict.findings[at]): place for at, place in (places or {}).items()}
    return {
        "target": {
            "prefix": header.target,
            "found_by": header.found_by or None,
            "torch": header.torch or None,
            "taken_at": header.taken_at or None,
        },
        "profile": header.profile or None,
        **({"lock": header.lock} if header.lock else {}),
        "summary": _summary(verdict, groups, fail_on),
        "areas": encode(verdict.areas),
        "findings": _findings(groups, lines),
        "could_not_tell": [_gap(skip) for skip in verdict.skipped if skip.matters],
        "waived": [{"finding": _finding(item.finding, None), "reason": item.reason} for item in verdict.waived],
        **({"stack": dict(stack)} if stack is not None else {}),
    }


def _summary(verdict: Verdict, groups: tuple[CauseGroup, ...], fail_on: Severity) -> dict[str, Any]:
    counts = {
        f"{severity}s": sum(finding.severity == severity for finding in verdict.findings)
        for severity in ("error", "warning", "note")
    }
    return {
        **counts,
        "causes": len(groups),
        "shared_remedies": {"commands": shared(groups)[0], "causes": shared(groups)[1]},
        "could_not_tell": sum(skip.matters for skip in verdict.skipped),
        "waived": len(verdict.waived),
        "not_checked": list(verdict.not_checked),
        "fail_on": fail_on,
        "exit_code": int(verdict.exit_code(fail_on)),
    }


def _findings(groups: tuple[CauseGroup, ...], lines: Mapping[int, SaidAt]) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = []
    first: dict[tuple[str, ...], int] = {}
    for group in groups:
        cause = len(listed)
        commands = group.cause.remediation.commands
        listed.append(_finding(group.cause, None, first.get(commands) if commands else None, lines))
        first.setdefault(commands, cause)
        listed += [_finding(finding, cause, None, lines) for finding in group.consequences]
    return listed


def _gap(skip: Skipped) -> dict[str, str]:
    crash = {"traceback": skip.traceback} if skip.traceback else {}
    return {"code": skip.code, "name": skip.name, "reason": skip.reason, **crash}


def _finding(
    finding: Finding,
    caused_by: int | None,
    same_remedy_as: int | None = None,
    lines: Mapping[int, SaidAt] | None = None,
) -> dict[str, Any]:
    place = (lines or {}).get(id(finding))
    return {
        "code": finding.code,
        "name": finding.name,
        "severity": finding.severity,
        "confidence": finding.confidence,
        "title": finding.title,
        "subject": finding.subject,
        **({"location": encode(place)} if place else {}),
        "evidence": list(finding.evidence),
        "explains": list(finding.explains),
        "caused_by": caused_by,
        "same_remedy_as": same_remedy_as,
        "remediation": encode(finding.remediation),
    }
