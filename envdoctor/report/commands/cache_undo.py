"""`envdoctor cache undo`: what is back."""

from typing import Any

from envdoctor.app.cache_changes import Undone
from envdoctor.model.codec import encode
from envdoctor.report.cache_text import megabytes
from envdoctor.report.style import Style


def text(data: Undone, style: Style) -> str:
    """Return what was done."""
    del style
    lines = []
    for item in data.roots:
        kept = f", {item.present} were made again meanwhile and stay" if item.present else ""
        lines.append(f"{item.root}: {item.files} files back in {item.origin} ({megabytes(item.bytes)}){kept}\n")
        if item.left_in:
            lines.append(
                f"  the former ones are in {item.left_in}; `envdoctor cache gc --purge` deletes them for good\n"
            )
    return "".join(lines) or "nothing to undo: no clean-up is in quarantine\n"


def document(data: Undone) -> dict[str, Any]:
    """Return the same as plain values."""
    return dict(encode(data))
