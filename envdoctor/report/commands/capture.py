"""`envdoctor capture`: what was captured, and where it was written."""

import os
from pathlib import Path
from typing import Any

from envdoctor.app.capture import CaptureResult
from envdoctor.model.codec import encode
from envdoctor.model.wording import counted, size
from envdoctor.report.style import Style


def text(data: CaptureResult, style: Style) -> str:
    """Return what was captured, where it was written, and what it does not hold."""
    del style
    captured, place, cwd = data.captured, data.place, data.cwd
    pinned = len(captured.wheels) - len(captured.kept)
    lines = [
        f"captured {captured.target} as {place.name}: {counted(pinned, 'package')} pinned, {len(captured.kept)} kept",
        f"  verified {counted(captured.files, 'file')} ({size(captured.bytes)}) by sha256",
        f"  profile  {_near(place.profile, cwd)}",
        f"  lock     {_near(place.lock, cwd)}",
        f"  digest   {captured.profile.lock.digest}",
    ]
    if captured.kept:
        lines += ["", f"kept as wheels in {_near(place.wheels, cwd)}, to go wherever the lock goes:"]
        lines += [f"  {one.subject.item.name} {one.subject.item.version}: {one.reason}" for one in captured.kept]
    for note in captured.notes:
        lines += ["", f"note: {note}"]
    return "\n".join(lines) + "\n"


def document(data: CaptureResult) -> dict[str, Any]:
    """Return the same as plain values."""
    captured, place = data.captured, data.place
    reasons = {one.subject.item.name: one.reason for one in captured.kept}
    return {
        "target": captured.target,
        "profile": str(place.profile),
        "lock": str(place.lock),
        "digest": captured.profile.lock.digest,
        "wheels": [{**encode(wheel), "kept_because": reasons.get(wheel.name)} for wheel in captured.wheels],
        "verified": {"files": captured.files, "bytes": captured.bytes},
        "notes": list(captured.notes),
    }


def _near(path: Path, cwd: Path) -> str:
    return os.path.relpath(path, cwd) if path.is_relative_to(cwd) else str(path)
