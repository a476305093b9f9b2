"""`envdoctor config`: each setting, its value and where it comes from."""

from typing import Any

from envdoctor.app.config import Configured
from envdoctor.model.codec import encode
from envdoctor.model.profile import Waiver
from envdoctor.report.style import Style


def text(data: Configured, style: Style) -> str:
    """Return a line for each setting and each waiver."""
    del style
    wide = max(len(item.value or "-") for item in data.settings)
    names = max(len(item.name) for item in data.settings)
    lines = [
        f"{item.name.ljust(names)}  {(item.value or '-').ljust(wide)}  {item.source}".rstrip() for item in data.settings
    ]
    lines += [
        f"{'waiver'.ljust(names)}  {_waiver(waiver, data.today)}  {data.file.path}" for waiver in data.file.waivers
    ]
    if data.file.ignored:
        lines.append(f"{'ignored'.ljust(names)}  {data.file.ignored}: it belongs to another user")
    return "\n".join(lines) + "\n"


def document(data: Configured) -> dict[str, Any]:
    """Return the same as plain values."""
    return {
        "file": data.file.path or None,
        "ignored": data.file.ignored or None,
        "settings": [{"name": item.name, "value": item.value or None, "source": item.source} for item in data.settings],
        "waivers": encode(data.file.waivers),
    }


def _waiver(waiver: Waiver, today: str) -> str:
    subject = f" ({waiver.subject})" if waiver.subject else ""
    until = f", {'until' if waiver.expires >= today else 'expired on'} {waiver.expires}" if waiver.expires else ""
    return f"{waiver.code}{subject}: {waiver.reason}{until}"
