"""The outline of a `check` document."""

from collections.abc import Mapping
from typing import Any

from envdoctor.model.wording import counted
from envdoctor.report.formats.outline import (
    Outline,
    OutlineEntry,
    OutlineGap,
    OutlinePlace,
    OutlineRow,
    OutlineWaived,
)


def outline(document: Mapping[str, Any]) -> Outline:
    """Return what the document says."""
    target, summary, stack = document["target"], document["summary"], document.get("stack", {})
    return Outline(
        command="check",
        subject=target["prefix"],
        conclusion=_conclusion(document),
        exit_code=summary["exit_code"],
        tool_version=document["tool"]["version"],
        context=tuple(
            (name, str(value))
            for name, value in (
                ("found by", target["found_by"]),
                ("torch", target["torch"] or "none that can be read"),
                ("profile", document["profile"] or ("none" if not document.get("lock") else "")),
                ("lock", document.get("lock")),
                ("facts of", target["taken_at"]),
            )
            if value
        ),
        entries=tuple(_entry(finding) for finding in document["findings"]),
        rows=tuple(OutlineRow(**area) for area in document["areas"]),
        gaps=tuple(
            OutlineGap(code=gap["code"], name=gap["name"], reason=gap["reason"]) for gap in document["could_not_tell"]
        ),
        waived=tuple(
            OutlineWaived(entry=_entry(item["finding"]), reason=item["reason"]) for item in document["waived"]
        ),
        machine=tuple((row["name"], row["value"]) for row in stack.get("machine", ())),
        distributions=stack.get("distributions", {}),
        fail_on=summary["fail_on"],
    )


def _entry(finding: Mapping[str, Any]) -> OutlineEntry:
    remedy, place = finding["remediation"], finding.get("location")
    return OutlineEntry(
        code=finding["code"],
        name=finding["name"],
        level=finding["severity"],
        title=finding["title"],
        subject=finding["subject"],
        evidence=tuple(finding["evidence"]),
        confidence=finding["confidence"],
        remedy=remedy["text"],
        commands=tuple(remedy["commands"]),
        by_hand=tuple(remedy["by_hand"]),
        caused_by=finding["caused_by"],
        place=OutlinePlace(file=place["file"], line=place["line"]) if place else None,
    )


def _conclusion(document: Mapping[str, Any]) -> str:
    summary = document["summary"]
    found = [counted(summary[f"{level}s"], level) for level in ("error", "warning", "note") if summary[f"{level}s"]]
    causes = counted(summary["causes"], "cause")
    parts = [f"Found {', '.join(found)} ({causes})" if found else "Nothing found"]
    if summary["could_not_tell"]:
        parts.append(f"{counted(summary['could_not_tell'], 'check')} could not tell")
    if summary["waived"]:
        parts.append(f"{summary['waived']} waived")
    return "; ".join([*parts, *summary["not_checked"]])
