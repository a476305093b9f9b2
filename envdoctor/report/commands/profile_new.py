"""`envdoctor profile new`: what will be built, and what was written."""

import os
from pathlib import Path
from typing import Any

from envdoctor.app.profile_new import NewProfile
from envdoctor.model.codec import encode
from envdoctor.model.wording import counted
from envdoctor.report.style import Style


def text(data: NewProfile, style: Style) -> str:
    """Return what has to be built, or, once it is written, what the profile holds and where it is."""
    del style
    python = f"CPython {data.interpreter.version} ({data.interpreter.path})"
    if data.profile is None:
        lines = [f"{data.lock.path.name} for {python}: {counted(len(data.pinned), 'package')} as wheels by hash"]
        lines += ["", "built from source, which runs their build backends, and kept as wheels:"]
        lines += [f"  {_named(one.name, one.version)}: {one.origin}" for one in data.sources]
        return "\n".join(lines) + "\n"
    held = f"{counted(len(data.pinned), 'package')}, {len(data.kept)} kept as wheels"
    lines = [
        f"made {data.place.name} of {_near(data.lock.path, data.cwd)}: {held}",
        f"  torch    {data.profile.torch.version}",
        f"  python   {python}",
        f"  profile  {_near(data.place.profile, data.cwd)}",
        f"  lock     {_near(data.place.lock, data.cwd)}",
    ]
    if data.kept:
        lines += [f"  wheels   {_near(data.place.wheels, data.cwd)}, to go wherever the lock goes"]
    for note in data.notes:
        lines += ["", f"note: {note}"]
    return "\n".join(lines) + "\n"


def document(data: NewProfile) -> dict[str, Any]:
    """Return the same as plain values."""
    return {
        "from": {
            "file": str(data.lock.path),
            "kind": data.lock.kind,
            "extras": list(data.lock.extras),
            "groups": list(data.lock.groups),
        },
        "python": {"version": data.interpreter.version, "path": data.interpreter.path},
        "profile": str(data.place.profile),
        "lock": str(data.place.lock),
        "torch": encode(data.profile.torch) if data.profile else None,
        "packages": encode(data.pinned),
        "built": [{"name": one.name, "origin": one.origin} for one in data.sources],
        "kept": encode(data.kept),
        "notes": list(data.notes),
    }


def _named(name: str, version: str) -> str:
    return f"{name} {version}".strip()


def _near(path: Path, cwd: Path) -> str:
    return os.path.relpath(path, cwd) if path.is_relative_to(cwd) else str(path)
