"""`envdoctor diff`: how two stacks differ."""

from typing import Any

from envdoctor.compare.difference import Comparison
from envdoctor.model.codec import encode
from envdoctor.report import as_difference
from envdoctor.report.style import Style


def text(data: Comparison, style: Style) -> str:
    """Return the differences that a person reads."""
    return as_difference.render(data, style)


def document(data: Comparison) -> dict[str, Any]:
    """Return the differences as plain values."""
    sides = {
        name: {"label": side.label, "kind": side.kind, "digest": side.digest}
        for name, side in (("a", data.a), ("b", data.b))
    }
    return {
        **sides,
        "equal": not data.differences and not data.unread,
        "digests": data.digests,
        "differences": encode(data.differences),
        "not_compared": dict(data.unread),
    }
