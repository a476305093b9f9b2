"""Distributions of the locked version that were installed from another wheel than the locked one that fits best."""

from collections.abc import Iterator, Mapping

from packaging.tags import parse_tag
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import InvalidVersion

from envdoctor.probes.venv.distributions import Distribution


def other_builds(present: Mapping[str, Distribution], filenames: Mapping[str, str]) -> Iterator[str]:
    """Yield a warning for each. filenames: name -> the wheel that a restore takes, where that is known.

    multiprocess 0.70.19 has a wheel for each Python, all of them pure: each installs anywhere, and only the right one
    can spawn. Compared are Python tag and ABI, as the installed WHEEL states them; platforms are renamed after a build.
    """
    for name, filename in filenames.items():
        item = present.get(name)
        if item is None or not item.tags:
            continue
        try:
            _, _, _, wanted = parse_wheel_filename(filename)
            installed = {tag for text in item.tags for tag in parse_tag(text)}
        except (InvalidWheelFilename, InvalidVersion, ValueError):
            continue
        if {(tag.interpreter, tag.abi) for tag in installed}.isdisjoint((tag.interpreter, tag.abi) for tag in wanted):
            yield (
                f"{name} {item.version} in the venv is the wheel for {item.tags[0]}; the locked one that fits this "
                f"Python best is {filename}"
            )
