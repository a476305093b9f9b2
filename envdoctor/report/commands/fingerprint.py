"""`envdoctor fingerprint`: the facts, always as JSON."""

from typing import Any

from envdoctor.documents import fingerprint_file
from envdoctor.model.fingerprint import Fingerprint
from envdoctor.report.envelope import dump
from envdoctor.report.style import Style


def text(data: Fingerprint, style: Style) -> str:
    """Return the document: facts have no other form."""
    del style
    return dump(document(data))


def document(data: Fingerprint) -> dict[str, Any]:
    """Return the facts as plain values."""
    return fingerprint_file.document(data)
