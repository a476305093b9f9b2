"""`envdoctor why`: the answer."""

from typing import Any

from envdoctor.model.codec import encode
from envdoctor.model.why import Answer
from envdoctor.report import why_text
from envdoctor.report.style import Style


def text(data: Answer, style: Style) -> str:
    """Return the answer that a person reads."""
    return why_text.render(data, style)


def document(data: Answer) -> dict[str, Any]:
    """Return the answer as plain values."""
    return dict(encode(data))
