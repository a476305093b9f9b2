"""The picture of a result alone, as a file of its own."""

from collections.abc import Mapping
from typing import Any

from envdoctor.errors import UsageError
from envdoctor.report.formats.draw_providers import LAYOUT_MISSING
from envdoctor.report.formats.outline import Outline
from envdoctor.report.formats.page_style import COLORS, PICTURE
from envdoctor.report.formats.pictures import picture_of


def render(outline: Outline, document: Mapping[str, Any]) -> str:
    """Return the document. Raises UsageError where there is nothing to draw, or nothing to draw it with."""
    drawn = picture_of(outline.command, document, link=False)
    if drawn is None:
        raise UsageError(
            f"`envdoctor {outline.command}` found nothing to draw: {outline.conclusion}",
            "`--format html` says the rest",
        )
    if not drawn.svg:
        raise UsageError(*LAYOUT_MISSING)
    head, inner = drawn.svg.split(">", 1)
    background = '<rect width="100%" height="100%" style="fill: var(--paper)"/>'
    return f"{head}><style>{COLORS}{PICTURE}</style>{background}{inner}\n"
