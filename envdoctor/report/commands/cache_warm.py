"""`envdoctor cache warm`: the proof that a cache is warm."""

from typing import Any

from envdoctor.app.cache_warm import Proven
from envdoctor.cache.warm import WarmupRun
from envdoctor.report.cache_text import entries, megabytes
from envdoctor.report.style import Style


def text(data: Proven, style: Style) -> str:
    """Return what the second run proved, and what compiling cost."""
    del style
    warmed, manifest = data.warmed, data.manifest
    cost = f"; compiling took {warmed.compile_seconds:.0f} s" if warmed.was_cold else "; it was not cold before"
    return (
        f"The cache of {data.profile} is warm: the second run was served {warmed.second.hits} graphs and compiled none"
        f"{cost}\n{megabytes(manifest.bytes)} in {len(manifest.files)} files: {entries(manifest.entries)}\n"
        f"key {manifest.key_digest}\n"
    )


def document(data: Proven) -> dict[str, Any]:
    """Return the same as plain values."""
    warmed, manifest = data.warmed, data.manifest
    return {
        "profile": data.profile,
        "was_cold": warmed.was_cold,
        "compile_seconds": warmed.compile_seconds if warmed.was_cold else None,
        "runs": [_run(warmed.first), _run(warmed.second)],
        "key": manifest.key_digest,
        "files": len(manifest.files),
        "bytes": manifest.bytes,
        "entries": dict(manifest.entries),
    }


def _run(run: WarmupRun) -> dict[str, Any]:
    return {"seconds": run.seconds, "compiled": run.compiled, "served": run.hits, "added": len(run.added)}
