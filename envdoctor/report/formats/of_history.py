"""The outline of a `history` document."""

from collections.abc import Mapping
from typing import Any

from envdoctor.model.wording import counted, size
from envdoctor.report.formats.outline import Outline, OutlineEntry, OutlineRow


def outline(document: Mapping[str, Any]) -> Outline:
    """Return what the document says: a row for each backup, an entry for what was interrupted."""
    kept, space = document["generations"], document["space"]
    room = f"; removing all frees {size(space['frees'])}" if kept else ""
    pending = document["interrupted"]
    return Outline(
        command="history",
        subject=document["target"],
        conclusion=f"{counted(len(kept), 'backup')} kept{room}",
        exit_code=0,
        tool_version=document["tool"]["version"],
        entries=(
            OutlineEntry(
                code="history/interrupted",
                name="interrupted",
                level="warning",
                title=pending,
                subject=document["target"],
            ),
        )
        if pending
        else (),
        rows=tuple(_row(item) for item in kept),
    )


def _row(item: Mapping[str, Any]) -> OutlineRow:
    parts = [
        f"{name} {item[key]}"
        for name, key in (("torch", "torch"), ("profile", "profile"), ("made", "made_at"), ("kept", "kept_at"))
        if item.get(key)
    ]
    room = f"{size(item['space']['bytes'])}, {size(item['space']['frees'])} its own"
    return OutlineRow(area=f"backup {item['number']}", state="note", summary=", ".join([*parts, room]))
