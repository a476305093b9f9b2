"""`envdoctor cache list`: the snapshots there are."""

from typing import Any

from envdoctor.app.caches import Snapshots
from envdoctor.report.cache_text import entries, megabytes
from envdoctor.report.style import Style


def text(data: Snapshots, style: Style) -> str:
    """Return a line for each snapshot."""
    del style
    return "".join(map(_line, data.found)) or f"no snapshots in {data.folder}\n"


def document(data: Snapshots) -> dict[str, Any]:
    """Return the snapshots as plain values."""
    return {
        "snapshots": [item | {"profile": item["profile"] or None} if "profile" in item else item for item in data.found]
    }


def _line(found: dict[str, Any]) -> str:
    if "problem" in found:
        return f"{found['path']}: {found['problem']}\n"
    of = f", profile {found['profile']}" if found["profile"] else ""
    return (
        f"{found['name']}: {found['made_at']}{of}, key {found['key']}, {megabytes(found['unpacked_bytes'])} in "
        f"{found['files']} files ({megabytes(found['bytes'])} packed): {entries(found['entries'])}\n"
    )


def _plain(found: dict[str, Any]) -> dict[str, Any]:
    # One that cannot be read has a problem and no profile.
    return found | {"profile": found["profile"] or None} if "profile" in found else found
