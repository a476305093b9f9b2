"""The outline of a `cache status` document."""

from collections.abc import Iterator, Mapping
from typing import Any

from envdoctor.model.verdict import AreaState
from envdoctor.model.wording import counted, size
from envdoctor.report.formats.outline import Level, Outline, OutlineEntry, OutlineGap, OutlineRow

_SENTENCES = {
    "hit": "The compile caches will hit",
    "partial": "The compile caches will hit in part",
    "miss": "The compile caches will not hit",
    "cold": "The compile caches are cold",
    "unknown": "Whether the compile caches will hit could not be determined",
}
_LEVELS: dict[str, Level] = {"partial": "warning", "miss": "error", "cold": "error"}
_EXIT = {"hit": 0, "unknown": 3}


def outline(document: Mapping[str, Any]) -> Outline:
    """Return what the document says: an entry for each reason not to hit, and for each damaged entry."""
    state = document["state"]
    unproven = document["reasons"][1:] if state == "hit" else ()
    gaps = document["reasons"] if state == "unknown" else unproven
    return Outline(
        command="cache status",
        subject=document["target"],
        conclusion=_SENTENCES[state] + (", if this environment filled them" if unproven else ""),
        exit_code=3 if unproven else _EXIT.get(state, 1),
        tool_version=document["tool"]["version"],
        context=(("profile", document["profile"] or "none"), ("key", document["key_digest"])),
        entries=tuple(_entries(document)),
        rows=tuple(_row(root, document["damaged"]) for root in document["roots"] if root["present"]),
        gaps=tuple(OutlineGap(code="cache/unknown", name="compile cache", reason=reason) for reason in gaps),
        fail_on="warning",
    )


def _entries(document: Mapping[str, Any]) -> Iterator[OutlineEntry]:
    level = _LEVELS.get(document["state"])
    for reason in document["reasons"] if level else ():
        name = f"cache-{document['state']}"
        yield OutlineEntry(
            code=f"cache/{document['state']}", name=name, level=level or "error", title=reason, subject="compile cache"
        )
    for item in document["damaged"]:
        yield OutlineEntry(
            code="cache/damaged",
            name="damaged-entry",
            level="error",
            title=f"{item['root']} entry {item['entry']} is damaged: {item['reason']}",
            subject=item["entry"],
            evidence=tuple(item["files"]),
        )
    warnings = [("compile cache", text) for text in document["warnings"]]
    warnings += [(root["path"], text) for root in document["roots"] for text in root["warnings"]]
    for subject, text in warnings:
        yield OutlineEntry(
            code="cache/warning", name="cache-warning", level="note", title=f"{subject}: {text}", subject=subject
        )


def _row(root: Mapping[str, Any], damaged: list[Mapping[str, Any]]) -> OutlineRow:
    broken = sum(item["root"] == root["kind"] for item in damaged)
    kinds = ", ".join(f"{number} {kind}" for kind, number in root["entries"].items())
    text = f"{root['path']}: {counted(root['files'], 'file')}, {size(root['bytes'])}" + (f" ({kinds})" if kinds else "")
    return OutlineRow(
        area=root["kind"], state=_state(root, broken), summary=text + (f"; {broken} damaged" if broken else "")
    )


def _state(root: Mapping[str, Any], broken: int) -> AreaState:
    return "error" if broken else "warning" if root["warnings"] else "ok" if root["files"] else "not-applicable"
