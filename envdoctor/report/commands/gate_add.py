"""`envdoctor gate add`: the lock that has the gate now."""

import shlex
from typing import Any

from envdoctor.app.gate import GateAdded
from envdoctor.report.style import Style


def text(data: GateAdded, style: Style) -> str:
    """Return what was added, and what installs it."""
    del style
    return (
        f"added {data.wheel.name} {data.wheel.version} to {data.lock}; its wheel is {data.wheel_path}\n"
        f"next: `envdoctor {data.installed_by} --profile {shlex.quote(data.profile_asked)}`\n"
    )


def document(data: GateAdded) -> dict[str, Any]:
    """Return the same as plain values."""
    wheel = data.wheel
    return {
        "profile": data.profile,
        "lock": data.lock,
        "wheel": {"name": wheel.name, "version": wheel.version, "sha256": wheel.sha256, "path": data.wheel_path},
    }
