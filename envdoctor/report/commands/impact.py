"""`envdoctor impact`: what a change would do."""

from typing import Any

from envdoctor.model.codec import encode
from envdoctor.model.impact import Impact
from envdoctor.report import impact_text
from envdoctor.report.style import Style


def text(data: Impact, style: Style) -> str:
    """Return the answer that a person reads."""
    return impact_text.render(data, style)


def document(data: Impact) -> dict[str, Any]:
    """Return the answer as plain values."""
    return {**encode(data), "harmful": data.harmful}
