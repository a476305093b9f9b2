"""SARIF 2.1.0 (OASIS Standard, errata 01) for code scanning: one run, one rule a code, one result an entry.

A location is a line of the profile or of the lock that speaks of it, as a path relative to the source root where it is
inside; what no file speaks of is located at the environment itself.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from envdoctor.model.rule import Rule
from envdoctor.report.formats.outline import Outline, OutlineEntry

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_ROOT = "%SRCROOT%"


def render(outline: Outline) -> str:
    """Return the log, ending in a newline."""
    shown = [*outline.entries, *(item.entry for item in outline.waived)]
    codes = list(dict.fromkeys(entry.code for entry in shown))
    results = [_result(entry, codes, outline) for entry in outline.entries]
    for item in outline.waived:
        suppressed = {"suppressions": [{"kind": "external", "justification": item.reason}]}
        results.append(_result(item.entry, codes, outline) | suppressed)
    run = {
        "tool": {
            "driver": {
                "name": "envdoctor",
                "version": outline.tool_version,
                "semanticVersion": outline.tool_version,
                "rules": [_rule(next(entry for entry in shown if entry.code == code)) for code in codes],
            }
        },
        "automationDetails": {"id": f"envdoctor/{outline.command.replace(' ', '-')}/"},
        "columnKind": "unicodeCodePoints",
        "invocations": [
            {
                "executionSuccessful": True,
                "exitCode": outline.exit_code,
                "toolExecutionNotifications": [
                    {
                        "level": "warning",
                        "descriptor": {"id": gap.code},
                        "message": {"text": f"could not tell: {gap.name}: {gap.reason}"},
                    }
                    for gap in outline.gaps
                ],
            }
        ],
        "results": results,
        "properties": {"conclusion": outline.conclusion, "subject": outline.subject},
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def identity(entry: OutlineEntry) -> str:
    """Return what stays the same while an entry is the same one, on every machine: its code and its subject."""
    return hashlib.sha256(f"{entry.code}\n{entry.subject}".encode("utf-8", "surrogateescape")).hexdigest()


def _rule(entry: OutlineEntry) -> dict[str, Any]:
    documented = next((rule for rule in _documented(entry.code)), None)
    summary = documented.summary if documented else f"{entry.name.replace('-', ' ')} of {entry.code.partition('/')[0]}"
    page = "\n\n".join(f"{head}: {text}" for head, text in documented.sections.items()) if documented else summary
    return {
        "id": entry.code,
        "name": "".join(word.capitalize() for word in entry.name.split("-")),
        "shortDescription": {"text": entry.name.replace("-", " ")},
        "fullDescription": {"text": summary},
        "help": {"text": page},
        "defaultConfiguration": {"level": entry.level},
    }


def _documented(code: str) -> Iterator[Rule]:
    """Yield the documentation of the check of that code, where it is one of a check."""
    if code.startswith("ED"):
        from envdoctor.app.checks import all_rules  # noqa: PLC0415 - a difference has none

        yield from (rule for rule in all_rules() if rule.code == code)


def _result(entry: OutlineEntry, codes: list[str], outline: Outline) -> dict[str, Any]:
    lines = [entry.title, *entry.evidence]
    if entry.caused_by is not None:
        cause = outline.entries[entry.caused_by]
        lines.append(f"caused by {cause.code}: {cause.title}")
    if entry.remedy:
        lines.append(f"fix: {entry.remedy}")
    return {
        "ruleId": entry.code,
        "ruleIndex": codes.index(entry.code),
        "level": entry.level,
        "message": {"text": "\n".join([*lines, *entry.commands])},
        "locations": [_location(entry, outline)],
        "partialFingerprints": {"envdoctor/v1": identity(entry)},
        "properties": {"subject": entry.subject, "confidence": entry.confidence, "commands": list(entry.commands)},
    }


def _location(entry: OutlineEntry, outline: Outline) -> dict[str, Any]:
    if entry.place is None:
        logical = [{"fullyQualifiedName": entry.subject, "kind": "resource"}] if entry.subject else []
        folder = outline.subject if os.path.isabs(outline.subject) else ""  # noqa: PTH117 - a path of a document
        physical = {"physicalLocation": {"artifactLocation": _artifact(f"{folder}/")}} if folder else {}
        return physical | ({"logicalLocations": logical} if logical else {})
    region = {"startLine": entry.place.line}
    return {"physicalLocation": {"artifactLocation": _artifact(entry.place.file), "region": region}}


def _artifact(path: str) -> dict[str, str]:
    uri = quote(os.fsencode(path), safe="/~!$&'()*+,;=@")
    if PurePosixPath(path).is_absolute():
        return {"uri": f"file://{uri}"}
    return {"uri": uri, "uriBaseId": _ROOT}
