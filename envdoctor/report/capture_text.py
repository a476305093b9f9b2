"""A capture's result, for people and for programs."""

import os
from pathlib import Path

from envdoctor import __version__
from envdoctor.capture.capture import Captured
from envdoctor.capture.captured_files import Place
from envdoctor.model.codec import encode
from envdoctor.model.wording import counted, size
from envdoctor.report.as_json import dump


def captured_text(captured: Captured, place: Place, cwd: Path) -> str:
    """Return what was captured, where it was written, and what it does not hold."""
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


def captured_json(captured: Captured, place: Place) -> str:
    """Return the same as one JSON document."""
    reasons = {one.subject.item.name: one.reason for one in captured.kept}
    return dump(
        {
            "schema_version": 1,
            "tool": {"name": "envdoctor", "version": __version__},
            "target": captured.target,
            "profile": str(place.profile),
            "lock": str(place.lock),
            "digest": captured.profile.lock.digest,
            "wheels": [{**encode(wheel), "kept_because": reasons.get(wheel.name)} for wheel in captured.wheels],
            "verified": {"files": captured.files, "bytes": captured.bytes},
            "notes": list(captured.notes),
        }
    )


def _near(path: Path, cwd: Path) -> str:
    return os.path.relpath(path, cwd) if path.is_relative_to(cwd) else str(path)
