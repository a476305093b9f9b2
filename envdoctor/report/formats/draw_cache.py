"""The map of the compile caches: a bar for each folder by its size, parted into its kinds of entry and their fate."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from envdoctor.catalog.cache_kinds import kind_of
from envdoctor.model.wording import counted, size
from envdoctor.report.formats import draw

_WIDTH, _BAR, _ROW, _MARGIN, _HEAD = 900.0, 30.0, 74.0, 12.0, 26.0
_FATES = {"hit": "ok", "miss": "warning", "damaged": "error", "foreign": "foreign", "not known": "unknown"}


def cache_picture(document: Mapping[str, Any]) -> str:
    """Return the picture of a `cache status` document: the widths of bars are their bytes, of parts their entries."""
    roots = [root for root in document["roots"] if root["files"]]
    largest = max((root["bytes"] for root in roots), default=1) or 1
    shapes = [draw.label(_MARGIN, 18, f"key {document['key_digest']}: {document['state']}", kind="strong")]
    for number, root in enumerate(roots):
        shapes += _bar(
            root, parts(root, document), _HEAD + number * _ROW, (_WIDTH - 2 * _MARGIN) * root["bytes"] / largest
        )
    height = _HEAD + len(roots) * _ROW + _MARGIN
    said = f"{counted(len(roots), 'cache folder')} with files; the next run finds them as: {document['state']}"
    return draw.picture(_WIDTH, height, "Compile caches by size, kind and fate", said, shapes)


def parts(root: Mapping[str, Any], document: Mapping[str, Any]) -> list[tuple[str, str, int]]:
    """Return (kind of entry, fate, number) of a cache folder: "hit", "miss", "damaged", "foreign" or "not known"."""
    kinds = [kind_of(item["root"], item["files"][0]) for item in document["damaged"] if item["root"] == root["kind"]]
    foreign = any("runs the code" in warning for warning in root["warnings"])
    match, state = document["match"], document["state"]
    missed = {kind for change in (match["comparison"]["differences"] if match else ()) for kind in change["reaches"]}
    found: list[tuple[str, str, int]] = []
    for kind, number in root["entries"].items():
        if foreign:
            fate = "foreign"
        elif match is None or state == "unknown":
            fate = "not known"
        else:
            fate = "miss" if kind in missed or state == "miss" else "hit"
        broken = kinds.count(kind)
        found += [(kind, "damaged", broken), (kind, fate, number - broken)]
    return [part for part in found if part[2] > 0]


def _bar(root: Mapping[str, Any], found: Sequence[tuple[str, str, int]], y: float, width: float) -> Iterator[str]:
    title = f"{root['kind']}  {size(root['bytes'])}, {counted(root['files'], 'file')}  {root['path']}"
    yield draw.label(_MARGIN, y + 14, title, room=_WIDTH - 2 * _MARGIN)
    whole, x = sum(number for *_, number in found) or 1, _MARGIN
    width = max(width, 6.0)
    for kind, fate, number in found:
        part = max(3.0, width * number / whole)
        told = f"{number} {kind}: {fate}"
        shown = next((text for text in (told, f"{number} {kind}", f"{number}") if _fits(text, part)), "")
        box = draw.element("rect", x=x, y=y + 20, width=part, height=_BAR, class_=f"box {_FATES[fate]}")
        yield draw.element("g", draw.titled(told), box)
        if shown:
            yield draw.label(x + 6, y + 39, shown)
        x += part
    by_fate: dict[str, list[str]] = {}
    for kind, fate, number in found:
        by_fate.setdefault(fate, []).append(f"{number} {kind}")
    small = "; ".join(f"{fate}: {', '.join(kinds)}" for fate, kinds in by_fate.items())
    yield draw.label(_MARGIN, y + 63, small, kind="dim", room=_WIDTH - 2 * _MARGIN)


def _fits(text: str, room: float) -> bool:
    return room > len(text) * draw.CHARACTER + 10
