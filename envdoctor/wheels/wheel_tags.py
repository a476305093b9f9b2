"""Which wheel files fit an interpreter that is not the running one."""

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache

from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from envdoctor.model.plan import BaseInterpreter

_OLDEST_GLIBC = {"x86_64": 5, "aarch64": 17}
_LEGACY = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}


@cache
def platforms(machine: str, glibc_minor: int) -> tuple[str, ...]:
    """Return Linux platform tags, most specific first, for a machine and a glibc 2.<minor> (PEP 600)."""
    tags = [f"linux_{machine}"]
    for minor in range(glibc_minor, _OLDEST_GLIBC.get(machine, 17) - 1, -1):
        tags.append(f"manylinux_2_{minor}_{machine}")
        if minor in _LEGACY:
            tags.append(f"{_LEGACY[minor]}_{machine}")
    return tuple(tags)


def supported(python: tuple[int, int], machine: str, glibc_minor: int, *, free_threaded: bool = False) -> list[Tag]:
    """Return the tags a CPython supports, best first."""
    names = platforms(machine, glibc_minor)
    abi = f"cp{python[0]}{python[1]}{'t' if free_threaded else ''}"
    own = list(cpython_tags(python, [abi], names))
    return [*own, *compatible_tags(python, f"cp{python[0]}{python[1]}", names)]


def tags_of(interpreter: BaseInterpreter) -> list[Tag]:
    """Return the tags of a probed interpreter, best first."""
    major, minor = (int(part) for part in interpreter.version.split(".")[:2])
    glibc_minor = int(interpreter.glibc.split(".")[1]) if interpreter.glibc else 0
    return supported(
        (major, minor),
        interpreter.markers["platform_machine"],
        glibc_minor,
        free_threaded=interpreter.tag.endswith("t"),
    )


def places(tags: Sequence[Tag]) -> dict[Tag, int]:
    """Return each tag's place in the order of preference."""
    return {tag: at for at, tag in enumerate(tags)}


def rank(filename: str, name: str, version: str, order: Mapping[Tag, int]) -> tuple[int, tuple[int, str]] | None:
    """Return a sort key (smaller is better) when the wheel is of that distribution and fits the tags, else None.

    An index lists every file of every version, ten thousand for some projects: the cheap question comes first.
    """
    parts = filename.split("-")
    if len(parts) < 5 or not filename.endswith(".whl") or not _same_version(parts[1], version):
        return None
    try:
        wheel_name, _, build, wheel_tags = parse_wheel_filename(filename)
    except (InvalidWheelFilename, InvalidVersion):
        return None
    found = [order[tag] for tag in wheel_tags if tag in order]
    if wheel_name != canonicalize_name(name) or not found:
        return None
    # A higher build tag wins among wheels of one tag, as installers have it.
    return min(found), (-build[0] if build else 0, build[1] if build else "")


@lru_cache(maxsize=65536)
def _same_version(written: str, version: str) -> bool:
    try:
        return Version(written) == Version(version)
    except InvalidVersion:
        return False
