"""`envdoctor cache restore`: the snapshot, and what merging it did."""

from typing import Any

from envdoctor.app.cache_restore import CacheRestored
from envdoctor.cache.restore import Merged
from envdoctor.report.cache_text import entries, megabytes, merged_text
from envdoctor.report.style import Style


def text(data: CacheRestored, style: Style) -> str:
    """Return what would be merged, or what was."""
    del style
    manifest = data.manifest
    if data.merged is None:
        return (
            f"Would merge {manifest.name}: {len(manifest.files)} files, {megabytes(manifest.bytes)}, "
            f"{entries(manifest.entries)}\n"
        )
    done = merged_text(manifest, data.merged)
    if data.signer:
        done += f"Signed by {data.signer}\n"
    if data.renamed is not None:
        done += f"{data.renamed} of {data.kernels} C++ kernels have a name for this venv's path now\n"
    return done


def document(data: CacheRestored) -> dict[str, Any]:
    """Return the same as plain values."""
    manifest = data.manifest
    return {
        "status": data.status,
        "name": manifest.name,
        "profile": manifest.profile or None,
        "key": manifest.key_digest,
        "files": len(manifest.files),
        "bytes": manifest.bytes,
        "entries": dict(manifest.entries),
        "warnings": list(data.warnings),
        "signer": data.signer or None,
        "result": _result(data.merged, data) if data.merged else None,
    }


def _result(merged: Merged, data: CacheRestored) -> dict[str, Any]:
    return {
        "added": merged.count("added"),
        "replaced": merged.count("replaced"),
        "present": merged.count("present"),
        "newer_kept": merged.count("newer kept"),
        "relocated": merged.relocated,
        "kernels": data.kernels,
        "renamed": data.renamed,
    }
