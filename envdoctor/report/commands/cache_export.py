"""`envdoctor cache export`: the file that was written."""

from typing import Any

from envdoctor.app.cache_changes import Exported
from envdoctor.model.codec import encode
from envdoctor.report.cache_text import entries, megabytes
from envdoctor.report.style import Style


def text(data: Exported, style: Style) -> str:
    """Return what was done."""
    del style
    return f"Exported {entries(data.entries)} from {data.folder}: {data.file} ({megabytes(data.bytes)})\n"


def document(data: Exported) -> dict[str, Any]:
    """Return the same as plain values."""
    return dict(encode(data))
