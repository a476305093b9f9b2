"""`envdoctor fetch`: what the wheelhouse holds, and what is missing."""

from typing import Any

from envdoctor.app.fetch import FetchResult
from envdoctor.model.codec import encode
from envdoctor.model.wording import counted, size
from envdoctor.report.style import Style
from envdoctor.wheels.fetched_wheels import Fetched

_SHOWN = 5


def text(data: FetchResult, style: Style) -> str:
    """Return what the wheelhouse holds."""
    del style
    done = data.fetched
    there = len(done.fetched) + len(done.present)
    return (
        f"{done.folder} holds {there} of {there + len(done.missing)} wheels ({size(done.bytes)}), verified by sha256: "
        f"{len(done.fetched)} fetched now, {len(done.present)} there before\n"
    )


def document(data: FetchResult) -> dict[str, Any]:
    """Return the same as plain values, with every missing wheel."""
    done = data.fetched
    return {
        "status": "incomplete" if done.missing else "complete",
        "profile": data.profile,
        "wheelhouse": str(done.folder),
        "bytes": done.bytes,
        "fetched": sorted(path.name for path in done.fetched),
        "present": sorted(path.name for path in done.present),
        "missing": encode(done.missing),
    }


def missing(done: Fetched) -> tuple[str, str]:
    """Return the message and the hint for the wheels that are missing."""
    lines = "".join(f"\n  {one.name} {one.version}: {one.reason}" for one in done.missing[:_SHOWN])
    more = f"\n  … and {len(done.missing) - _SHOWN} more (--json lists all)" if len(done.missing) > _SHOWN else ""
    hints = list(dict.fromkeys(one.hint for one in done.missing[:_SHOWN]))
    return f"{counted(len(done.missing), 'wheel', 'is', 'are')} missing:{lines}{more}", "\nhint: ".join(hints)
