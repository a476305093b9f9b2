"""The outline of a `diff` document."""

from collections.abc import Mapping
from typing import Any

from envdoctor.compare.difference import AREAS
from envdoctor.model.wording import counted
from envdoctor.report.formats.outline import Outline, OutlineEntry, OutlineGap, OutlineRow

_DIGESTS = {
    "equal": "the digests are equal",
    "different": "the digests differ",
    "unknown": "the digest of one is not known",
}


def outline(document: Mapping[str, Any]) -> Outline:
    """Return what the document says: an entry for each difference."""
    found, unread = document["differences"], document["not_compared"]
    a, b = document["a"], document["b"]
    count = (
        counted(len(found), "difference") if found else "No difference" + " in what could be compared" * bool(unread)
    )
    return Outline(
        command="diff",
        subject=f"{a['label']} and {b['label']}",
        conclusion=f"{count}; {_DIGESTS[document['digests']]}",
        exit_code=1 if found else 3 if unread else 0,
        tool_version=document["tool"]["version"],
        context=(("A", f"{a['label']} ({a['kind']})"), ("B", f"{b['label']} ({b['kind']})")),
        entries=tuple(_entry(item) for item in found),
        rows=tuple(_row(area, found, unread) for area in AREAS),
        gaps=tuple(
            OutlineGap(code=f"diff/{area}", name=area, reason=f"could not be compared: {reason}")
            for area, reason in unread.items()
        ),
        fail_on="warning",
    )


def _entry(item: Mapping[str, Any]) -> OutlineEntry:
    sides = " -> ".join(text for text in (item["a"], item["b"]) if text)
    return OutlineEntry(
        code=f"diff/{item['area']}",
        name=item["kind"].replace(" ", "-").lower(),
        level="warning",
        title=f"{item['subject']} is {item['kind']}" + (f": {sides}" if sides else ""),
        subject=item["subject"],
        evidence=tuple(f"{side}: {item[key]}" for side, key in (("A", "a"), ("B", "b")) if item[key]),
    )


def _row(area: str, found: list[Mapping[str, Any]], unread: Mapping[str, str]) -> OutlineRow:
    number = sum(item["area"] == area for item in found)
    if area in unread:
        return OutlineRow(area=area, state="unknown", summary=f"could not be compared: {unread[area]}")
    if number:
        return OutlineRow(area=area, state="warning", summary=counted(number, "difference"))
    return OutlineRow(area=area, state="ok", summary="no difference, as far as both sides say anything of it")
