"""`envdoctor lock`: the lock itself, or where it was written."""

from typing import Any

from envdoctor.app.lock import Locked
from envdoctor.model.codec import encode
from envdoctor.model.wording import counted
from envdoctor.report.style import Style


def text(data: Locked, style: Style) -> str:
    """Return the lock, or, where it was written to a file, how much is in it."""
    del style
    if not data.file:
        return data.content
    return f"locked {counted(len(data.lock.packages), 'package')} in {data.file}\n"


def document(data: Locked) -> dict[str, Any]:
    """Return what is pinned, and the lock's text where no file holds it."""
    return {
        "format": data.form,
        "file": data.file or None,
        "packages": encode(data.lock.packages),
        "content": None if data.file else data.content,
    }
