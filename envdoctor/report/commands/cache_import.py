"""`envdoctor cache import`: what was merged."""

from typing import Any

from envdoctor.app.cache_changes import Imported
from envdoctor.model.codec import encode
from envdoctor.report.style import Style


def text(data: Imported, style: Style) -> str:
    """Return what was done."""
    del style
    counted = ", ".join(f"{number} {outcome}" for outcome, number in data.outcomes.items()) or "nothing in it"
    return f"Imported {data.file} into {data.folder}: {counted}\n" + (
        f"Signed by {data.signer}\n" if data.signer else ""
    )


def document(data: Imported) -> dict[str, Any]:
    """Return the same as plain values."""
    return dict(encode(data))
