"""`envdoctor cache save`: the snapshot that was written."""

from typing import Any

from envdoctor.app.cache_changes import Saved
from envdoctor.model.codec import encode
from envdoctor.report.cache_text import entries, megabytes
from envdoctor.report.style import Style


def text(data: Saved, style: Style) -> str:
    """Return what was done."""
    del style
    word = f"on your word: {data.filled_by} filled these caches; `save` cannot prove it, `envdoctor cache warm` does"
    proof = f"proven by the warm-up of {data.proven_at}: they serve {data.filled_by}"
    return (
        f"Saved {data.name}: {data.files} files, {megabytes(data.unpacked_bytes)}, {entries(data.entries)}\n"
        f"{data.path} ({megabytes(data.bytes)})\n"
        f"key {data.key}, digest {data.digest}\n"
        f"sha256 {data.sha256}" + (f", signature {data.signature}" if data.signature else "") + "\n"
        f"{proof if data.proven_at else word}\n"
    )


def document(data: Saved) -> dict[str, Any]:
    """Return the same as plain values."""
    return dict(encode(data))
