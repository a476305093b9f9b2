"""A baseline: findings that were there when somebody began to look. Only new and worse ones count."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envdoctor.errors import UsageError
from envdoctor.facts.regular_file import read_regular
from envdoctor.facts.whole_file import write_whole
from envdoctor.model.finding import SEVERITY_ORDER, Finding, Severity
from envdoctor.model.frozen import replace
from envdoctor.model.verdict import Verdict, Waived, order_by_cause
from envdoctor.standards.bounded_json import loads

_MAXIMUM = 64 << 20
_SCHEMA = 1
_SHOWN = 4

Known = Mapping[tuple[str, str], "tuple[Severity, frozenset[str]] | None"]
"""(code, subject) -> how severe it was, and how far it went; None where the file does not say, as older ones do not."""


def write(path: Path, verdict: Verdict) -> None:
    """Write the findings of a verdict, sorted, each with how far it goes: a file to commit. Raises UsageError."""
    found: dict[tuple[str, str], tuple[Severity, frozenset[str]]] = {}
    for item in verdict.findings:
        severity, about = found.get((item.code, item.subject), (item.severity, frozenset[str]()))
        worst = min(severity, item.severity, key=SEVERITY_ORDER.__getitem__)
        found[item.code, item.subject] = worst, about | item.extent
    listed = [
        {"code": code, "subject": subject, "severity": severity, "about": sorted(about)}
        for (code, subject), (severity, about) in sorted(found.items())
    ]
    document = {"schema_version": _SCHEMA, "findings": listed}
    try:
        write_whole(Path(os.path.realpath(path)), (json.dumps(document, indent=2) + "\n").encode())
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror}", "name a file in a folder you may write to"
        ) from error


def read(path: Path) -> Known:
    """Return every finding of a baseline. Raises UsageError, naming the file and what is wrong."""
    hint = "write it with `envdoctor check --write-baseline FILE`"
    try:
        document = loads(read_regular(path, _MAXIMUM))
    except OSError as error:
        raise UsageError(f"cannot read the baseline {path}: {error.strerror}", hint) from error
    except ValueError as error:
        raise UsageError(f"the baseline {path} is not JSON: {error}", hint) from error
    if not isinstance(document, Mapping) or document.get("schema_version") != _SCHEMA:
        raise UsageError(f"{path} is not a baseline", hint)
    listed = document.get("findings")
    if not isinstance(listed, list):
        raise UsageError(f"{path}: it has no list of findings", hint)
    return dict(_one(item, path, hint) for item in listed)


def _one(item: Any, path: Path, hint: str) -> tuple[tuple[str, str], tuple[Severity, frozenset[str]] | None]:
    if (
        not isinstance(item, Mapping)
        or not isinstance(item.get("code"), str)
        or not isinstance(item.get("subject"), str)
    ):
        raise UsageError(f"{path}: a finding needs a code and a subject", hint)
    severity, about = item.get("severity"), item.get("about")
    if severity is about is None:
        return (item["code"], item["subject"]), None
    graded = isinstance(severity, str) and severity in SEVERITY_ORDER
    if not graded or not isinstance(about, list) or not all(isinstance(one, str) for one in about):
        raise UsageError(f"{path}: a finding needs a severity and a list of what it is about", hint)
    return (item["code"], item["subject"]), (item["severity"], frozenset(about))


def untold(known: Known) -> int:
    """Return how many of its findings say nothing of how far they went."""
    return sum(one is None for one in known.values())


def without(verdict: Verdict, known: Known, name: str) -> Verdict:
    """Return the verdict with what the baseline knows among the waived; new consequences of it stay findings."""
    reason = f"it is in the baseline {name}"
    waived, counted = [], []
    for finding in verdict.findings:
        if (finding.code, finding.subject) not in known:
            counted.append(finding)
        elif worse := _worse(finding, known[finding.code, finding.subject]):
            counted.append(replace(finding, evidence=(*finding.evidence, f"{reason}, where it was less: {worse}")))
        else:
            waived.append(Waived(finding=finding, reason=reason))
    ordered, consequences = order_by_cause(counted)
    return replace(verdict, findings=ordered, consequences=consequences, waived=(*verdict.waived, *waived))


def _worse(finding: Finding, before: tuple[Severity, frozenset[str]] | None) -> str:
    """Return in what a finding is worse than it was; empty where it is not, and where nobody can tell."""
    if before is None:
        return ""
    severity, about = before
    more = sorted(finding.extent - about)
    parts = (
        [f"{', '.join(more[:_SHOWN])}{f' and {len(more) - _SHOWN} more' if len(more) > _SHOWN else ''}"] if more else []
    )
    if SEVERITY_ORDER[finding.severity] < SEVERITY_ORDER[severity]:
        parts.append(f"it was {'an' if severity == 'error' else 'a'} {severity}")
    return ("new are " if more else "") + "; ".join(parts) if parts else ""
