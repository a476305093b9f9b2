"""A comparison as text: what matters most first, one line a subject."""

from collections.abc import Iterator, Sequence

from envdoctor.compare.difference import AREAS, ComparableStack, Comparison, Difference
from envdoctor.model.wording import counted
from envdoctor.report.style import Style, printable

_SIGNS = {"changed": "~", "only in A": "-", "only in B": "+"}
_PAINTS = {"changed": "warning", "only in A": "error", "only in B": "ok"}
_LISTED = 20


def render(comparison: Comparison, style: Style) -> str:
    """Return the whole text, ending with a newline. Verbose lists every subject of an area, however many."""
    return "\n".join(_lines(comparison, style)) + "\n"


def _lines(comparison: Comparison, style: Style) -> Iterator[str]:
    yield _head("A", comparison.a, style)
    yield _head("B", comparison.b, style)
    for area in AREAS:
        found = [item for item in comparison.differences if item.area == area]
        if found:
            yield ""
            yield from _area(area, found, style)
        elif area in comparison.unread:
            yield ""
            yield style.paint("unknown", f"{area}  could not be compared: {printable(comparison.unread[area])}")
    yield ""
    yield _verdict(comparison)


def _head(name: str, side: ComparableStack, style: Style) -> str:
    return f"{style.paint('strong', name)}  {printable(side.label)}  ({side.kind})"


def _area(area: str, found: Sequence[Difference], style: Style) -> Iterator[str]:
    yield style.paint("strong", f"{area} ({len(found)})")
    listed = found if style.verbosity > 0 else found[:_LISTED]
    width = max(len(item.subject) for item in listed)
    for item in listed:
        sides = " -> ".join(printable(text) for text in (item.a, item.b) if text)
        sign = style.paint(_PAINTS[item.kind], _SIGNS[item.kind])
        yield f"  {sign} {printable(item.subject).ljust(width)}  {sides}"
    if len(found) > len(listed):
        yield f"    … and {len(found) - len(listed)} more (-v lists all)"


def _verdict(comparison: Comparison) -> str:
    digests = {
        "equal": "the digests are equal",
        "different": "the digests differ",
        "unknown": "the digest of one is not known",
    }[comparison.digests]
    if comparison.differences:
        return f"{counted(len(comparison.differences), 'difference')}; {digests}"
    if comparison.unread:
        return f"no difference in what could be compared; {digests}"
    return f"no difference; {digests}"
