"""The generations of a venv on disk: what each takes for itself, and what it shares with others."""

from collections.abc import Mapping
from typing import Any

from envdoctor.model.wording import size
from envdoctor.report.formats import draw

_WIDTH, _BAR, _ROW, _MARGIN = 900.0, 20.0, 62.0, 12.0


def generations_picture(document: Mapping[str, Any]) -> str:
    """Return the picture of a `history` document: the widths of bars are bytes, on one scale."""
    kept = document["generations"]
    largest = max((item["space"]["bytes"] for item in kept), default=1) or 1
    current = document["current"]
    shapes = [
        draw.label(_MARGIN, 20, f"now   {_said(current) if current else 'no venv'}", kind="strong", room=_WIDTH - 24)
    ]
    for number, item in enumerate(kept):
        y, space = 40 + number * _ROW, item["space"]
        shapes.append(draw.label(_MARGIN, y + 12, f"{item['number']}   {_said(item)}", room=_WIDTH - 24))
        whole = max(4.0, (_WIDTH - 2 * _MARGIN) * space["bytes"] / largest)
        own = whole * space["frees"] / (space["bytes"] or 1)
        told = f"{size(space['bytes'])}, of which {size(space['frees'])} its own: what removing it frees"
        shapes.append(draw.element("rect", x=_MARGIN, y=y + 18, width=whole, height=_BAR, class_="box"))
        shapes.append(draw.element("rect", x=_MARGIN, y=y + 18, width=own, height=_BAR, class_="box warning"))
        shapes.append(draw.label(_MARGIN, y + 52, told, kind="dim", room=_WIDTH - 24))
    height = 40 + len(kept) * _ROW + _MARGIN
    said = f"{len(kept)} kept, newest first; the filled part of a bar is what removing it frees"
    return draw.picture(_WIDTH, height, "Backups of the venv on disk", said, shapes)


def _said(item: Mapping[str, Any]) -> str:
    named = (("torch", item.get("torch")), ("profile", item.get("profile")), ("made", item.get("made_at")))
    return "   ".join(f"{name} {value}" for name, value in named if value)
