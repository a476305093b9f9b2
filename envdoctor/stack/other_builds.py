"""Distributions of the locked version that were installed from another wheel than the one that a restore takes."""

from collections.abc import Mapping

from packaging.tags import parse_tag
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import InvalidVersion

from envdoctor.probes.venv.distributions import Distribution
from envdoctor.standards.wheel_builds import tags_in


def other_builds(present: Mapping[str, Distribution], filenames: Mapping[str, str]) -> dict[str, str]:
    """Return name -> a warning, for each. filenames: name -> the wheel that a restore takes, where that is known.

    multiprocess 0.70.19 has a wheel for each Python, all of them pure: each installs anywhere, and only the right one
    can spawn. Compared are Python tag and ABI, as the installed WHEEL states them; platforms are renamed after a build.
    Of a wheel that was renamed further the venv's note says the file name (`Distribution.wheel`).
    """
    found: dict[str, str] = {}
    for name, filename in filenames.items():
        item = present.get(name)
        if item is None or not item.tags:
            continue
        try:
            _, _, _, wanted = parse_wheel_filename(filename)
            tags = (tags_in(item.wheel),) if item.wheel else item.tags
            installed = {tag for text in tags for tag in parse_tag(text)}
        except (InvalidWheelFilename, InvalidVersion, ValueError):
            continue
        if {(tag.interpreter, tag.abi) for tag in installed}.isdisjoint((tag.interpreter, tag.abi) for tag in wanted):
            found[name] = (
                f"{name} {item.version} in the venv is the wheel for {item.tags[0]}; the locked one that fits this "
                f"Python best is {filename}"
            )
    return found


def built_as(present: Mapping[str, Distribution], filenames: Mapping[str, str]) -> dict[str, dict[str, object]]:
    """Return what the note of a venv that was just built from those wheels says."""
    return {
        name: {"version": present[name].version, "tags": list(present[name].tags), "wheel": filenames[name]}
        for name in other_builds(present, filenames)
    }
