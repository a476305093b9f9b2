"""Before and after: two columns, one row a subject, and an arrow between what was and what would be."""

from collections.abc import Sequence

from envdoctor.model.frozen import frozen
from envdoctor.report.formats import draw

ROWS_DRAWN = 40
_NAME, _SIDE, _GAP, _ROW, _MARGIN = 250.0, 300.0, 50.0, 34.0, 12.0


@frozen
class SideRow:
    """One subject on both sides; empty where a side has nothing."""

    subject: str
    before: str
    after: str
    kind: str = "warning"
    """Class of the box after: "warning", "error", "ok"."""


def sides_picture(title: str, heads: tuple[str, str], rows: Sequence[SideRow]) -> str:
    """Return the picture of the first rows; how many more there are is written under them."""
    shown, left = rows[:ROWS_DRAWN], len(rows) - ROWS_DRAWN
    first, second = _MARGIN + _NAME, _MARGIN + _NAME + _SIDE + _GAP
    shapes = [
        draw.label(first, 22, heads[0], kind="strong", room=_SIDE),
        draw.label(second, 22, heads[1], kind="strong", room=_SIDE),
    ]
    for number, row in enumerate(shown):
        y = 34 + number * _ROW
        shapes.append(draw.label(_MARGIN, y + 18, row.subject, room=_NAME - 10))
        shapes.append(_side(first, y, row.before, "box"))
        shapes.append(_side(second, y, row.after, f"box {row.kind}" if row.after else "box error"))
        at, end = first + _SIDE + 6, second - 6
        arrow = f"M{at:.1f} {y + 14:.1f}H{end:.1f}m-6 -4l6 4l-6 4"
        shapes.append(draw.element("path", d=arrow, class_="edge error" if not row.after else "edge"))
    height = 34 + len(shown) * _ROW + _MARGIN
    if left > 0:
        shapes.append(draw.label(_MARGIN, height + 6, f"and {left} more", kind="dim"))
        height += 20
    width = second + _SIDE + _MARGIN
    return draw.picture(width, height, title, f"{len(rows)} subjects, what was beside what would be", shapes)


def _side(x: float, y: float, text: str, kind: str) -> str:
    box = draw.element("rect", x=x, y=y, width=_SIDE, height=_ROW - 6, rx=3, class_=kind)
    return box + draw.label(x + 8, y + 18, text or "nothing", kind="" if text else "dim", room=_SIDE - 14)
