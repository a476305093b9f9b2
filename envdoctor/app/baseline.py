"""A baseline: findings that were there when somebody began to look. Only new ones count."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envdoctor.errors import UsageError
from envdoctor.facts.regular_file import read_regular
from envdoctor.facts.whole_file import write_whole
from envdoctor.model.finding import Finding
from envdoctor.model.frozen import replace
from envdoctor.model.verdict import Verdict, Waived, order_by_cause
from envdoctor.standards.bounded_json import loads

_MAXIMUM = 4 << 20
_SCHEMA = 1


def write(path: Path, verdict: Verdict) -> None:
    """Write the findings of a verdict by code and subject, sorted: a file to commit. Raises UsageError."""
    found = sorted({(item.code, item.subject) for item in verdict.findings})
    listed = [{"code": code, "subject": subject} for code, subject in found]
    document = {"schema_version": _SCHEMA, "findings": listed}
    try:
        write_whole(Path(os.path.realpath(path)), (json.dumps(document, indent=2) + "\n").encode())
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror}", "name a file in a folder you may write to"
        ) from error


def read(path: Path) -> frozenset[tuple[str, str]]:
    """Return (code, subject) of every finding of a baseline. Raises UsageError, naming the file and what is wrong."""
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
    return frozenset(_pair(item, path, hint) for item in listed)


def _pair(item: Any, path: Path, hint: str) -> tuple[str, str]:
    if (
        not isinstance(item, Mapping)
        or not isinstance(item.get("code"), str)
        or not isinstance(item.get("subject"), str)
    ):
        raise UsageError(f"{path}: a finding needs a code and a subject", hint)
    return item["code"], item["subject"]


def without(verdict: Verdict, known: frozenset[tuple[str, str]], name: str) -> Verdict:
    """Return the verdict with what the baseline knows among the waived; new consequences of it stay findings."""

    def old(finding: Finding) -> bool:
        return (finding.code, finding.subject) in known

    reason = f"it is in the baseline {name}"
    waived = tuple(Waived(finding=finding, reason=reason) for finding in verdict.findings if old(finding))
    ordered, consequences = order_by_cause(finding for finding in verdict.findings if not old(finding))
    return replace(verdict, findings=ordered, consequences=consequences, waived=(*verdict.waived, *waived))
