"""Distributions of the locked version that were installed from another wheel than the one that a restore takes."""

from collections.abc import Mapping
from pathlib import Path

from packaging.tags import parse_tag
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import InvalidVersion

from envdoctor.facts.regular_file import read_regular
from envdoctor.probes.venv.distributions import Distribution
from envdoctor.standards.bounded_json import loads
from envdoctor.swap.generations import NOTE

AS_BUILT = "as_built"
"""Where the note in a restored venv has name -> [version, *tags in WHEEL] of wheels whose file name says other tags."""
_MAXIMUM_NOTE = 1 << 20


def other_builds(
    present: Mapping[str, Distribution], filenames: Mapping[str, str], as_built: Mapping[str, object]
) -> dict[str, str]:
    """Return name -> a warning, for each. filenames: name -> the wheel that a restore takes, where that is known.

    multiprocess 0.70.19 has a wheel for each Python, all of them pure: each installs anywhere, and only the right one
    can spawn. Compared are Python tag and ABI, as the installed WHEEL states them; platforms are renamed after a build.
    as_built: what the venv's own note says of wheels that were renamed further; they are what the lock has.
    """
    found: dict[str, str] = {}
    for name, filename in filenames.items():
        item = present.get(name)
        if item is None or not item.tags or as_built.get(name) == [item.version, *item.tags]:
            continue
        try:
            _, _, _, wanted = parse_wheel_filename(filename)
            installed = {tag for text in item.tags for tag in parse_tag(text)}
        except (InvalidWheelFilename, InvalidVersion, ValueError):
            continue
        if {(tag.interpreter, tag.abi) for tag in installed}.isdisjoint((tag.interpreter, tag.abi) for tag in wanted):
            found[name] = (
                f"{name} {item.version} in the venv is the wheel for {item.tags[0]}; the locked one that fits this "
                f"Python best is {filename}"
            )
    return found


def built_as(present: Mapping[str, Distribution], filenames: Mapping[str, str]) -> dict[str, list[str]]:
    """Return what the note of a venv that was just built from those wheels says."""
    return {name: [present[name].version, *present[name].tags] for name in other_builds(present, filenames, {})}


def noted_in(venv: Path) -> dict[str, object]:
    """Return what the note of a venv says; nothing where there is none, or it cannot be read."""
    try:
        noted = loads(read_regular(venv / NOTE, _MAXIMUM_NOTE)).get(AS_BUILT)
    except (OSError, ValueError, AttributeError, RecursionError):
        return {}
    return noted if isinstance(noted, dict) else {}
