"""The outline of a `restore` document: what the plan changes, and what keeps it from being carried out."""

from collections.abc import Iterator, Mapping
from typing import Any

from envdoctor.model.wording import counted
from envdoctor.report.formats.outline import Outline, OutlineEntry, OutlineRow


def outline(document: Mapping[str, Any]) -> Outline:
    """Return what the document says: an entry for each obstacle and warning, a row for each change."""
    plan, status = document["plan"], document["status"]
    entries = tuple(_entries(plan))
    impossible = any(entry.level == "error" for entry in entries)
    changes = counted(len(plan["changes"]), "distribution") + " differ" + "s" * (len(plan["changes"]) == 1)
    told = "the plan cannot be carried out" if impossible else status
    return Outline(
        command="restore",
        subject=plan["target"],
        conclusion=f"{told}; {changes}",
        exit_code=4 if impossible else 0,
        tool_version=document["tool"]["version"],
        context=(("profile", plan["profile"]), ("lock", plan["lock"])),
        entries=entries,
        rows=tuple(_row(change) for change in plan["changes"]),
    )


def _entries(plan: Mapping[str, Any]) -> Iterator[OutlineEntry]:
    for item in plan["unavailable"]:
        yield OutlineEntry(
            code="restore/unavailable",
            name="unavailable-wheel",
            level="error",
            title=f"{item['name']} {item['version']} was not found: {item['reason']}",
            subject=item["name"],
            remedy=item["hint"],
        )
    for warning in plan["warnings"]:
        yield OutlineEntry(
            code="restore/warning", name="restore-warning", level="warning", title=warning, subject=plan["target"]
        )


def _row(change: Mapping[str, Any]) -> OutlineRow:
    sides = f"{change['before'] or 'not installed'} -> {change['after'] or 'removed'}"
    note = f" ({change['note']})" if change["note"] else ""
    return OutlineRow(area=change["name"], state="note", summary=sides + note)
