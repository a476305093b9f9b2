"""`envdoctor checks`: every check."""

from collections.abc import Sequence
from typing import Any

from envdoctor.model.codec import encode
from envdoctor.model.rule import Rule
from envdoctor.report.rule_pages import as_list
from envdoctor.report.style import Style


def text(data: Sequence[Rule], style: Style) -> str:
    """Return a line for each check."""
    del style
    return as_list(data)


def document(data: Sequence[Rule]) -> dict[str, Any]:
    """Return the checks as plain values."""
    return {"checks": encode(tuple(data))}
