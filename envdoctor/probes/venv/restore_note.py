"""The note that a restore leaves in the venv it built: which profile, which lock, and what its wheels do not say.

It moves with the venv.
"""

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote

from envdoctor.facts.regular_file import read_regular
from envdoctor.model.frozen import frozen
from envdoctor.standards.bounded_json import loads
from envdoctor.standards.names import normalized
from envdoctor.standards.wheel_builds import tags_in

NOTE = "envdoctor-restore.json"
AS_BUILT = "as_built"
"""Where the note has name -> {"version", "tags" of WHEEL, "wheel"} of wheels whose file name says other tags."""
_MAXIMUM = 1 << 20


@frozen
class BuiltFrom:
    """Installed from a wheel whose file name says other tags than its WHEEL: it was renamed after its build."""

    version: str
    tags: tuple[str, ...]
    """Of WHEEL."""
    wheel: str
    """The file name."""


def built_from(venv: Path) -> Mapping[str, BuiltFrom]:
    """Return name -> what the venv's note says of such wheels; nothing where there is no note, or it cannot be read."""
    try:
        noted = loads(read_regular(venv / NOTE, _MAXIMUM)).get(AS_BUILT)
    except (OSError, ValueError, AttributeError, RecursionError):
        return {}
    found = noted.items() if isinstance(noted, dict) else ()
    return {
        name: BuiltFrom(version=one[0], tags=tuple(one[1]), wheel=one[2])
        for name, told in found
        if (one := _read(name, told))
    }


def _read(name: str, told: object) -> tuple[str, list[str], str] | None:
    """Return (version, tags, wheel); None where the file name has no tags, or is of another name or version."""
    if not isinstance(told, dict):
        return None
    version, tags, wheel = (told.get(key) for key in ("version", "tags", "wheel"))
    if not (isinstance(version, str) and isinstance(wheel, str) and isinstance(tags, list)):
        return None
    parts = wheel.split("-")
    stated = unquote(parts[1]) if len(parts) > 1 else ""
    own = (normalized(name), version.replace("-", "_"))
    fits = wheel.endswith(".whl") and tags_in(wheel) and (normalized(parts[0]), stated) == own
    return (version, tags, wheel) if fits and all(isinstance(tag, str) for tag in tags) else None
