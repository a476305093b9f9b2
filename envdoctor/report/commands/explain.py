"""`envdoctor explain`: one check in full."""

from typing import Any

from envdoctor.model.codec import encode
from envdoctor.model.rule import Rule
from envdoctor.report.rule_pages import as_terminal_text
from envdoctor.report.style import Style


def text(data: Rule, style: Style) -> str:
    """Return the page of the check."""
    return as_terminal_text(data, style)


def document(data: Rule) -> dict[str, Any]:
    """Return the check as plain values."""
    return dict(encode(data))
