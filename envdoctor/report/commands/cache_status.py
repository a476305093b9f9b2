"""`envdoctor cache status`: the state of the caches."""

from typing import Any

from envdoctor.app.caches import CacheStatus
from envdoctor.model.codec import encode
from envdoctor.report.cache_text import status_text
from envdoctor.report.style import Style


def text(data: CacheStatus, style: Style) -> str:
    """Return what a person reads."""
    del style
    return status_text(data.status, data.target, data.profile, data.profile_asked)


def document(data: CacheStatus) -> dict[str, Any]:
    """Return the status as plain values; of a manifest's files only the number."""
    plain, match = encode(data.status), data.status.match
    if match:
        manifest = plain["match"]["manifest"]
        manifest["profile"] = match.manifest.profile or None
        manifest["files"] = len(match.manifest.files)
        manifest["bytes"] = match.manifest.bytes
        manifest["key_digest"] = match.manifest.key_digest
    return {"target": data.target, "profile": data.profile or None, **plain}
