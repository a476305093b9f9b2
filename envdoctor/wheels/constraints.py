"""A configured constraint that contradicts the lock: pip would refuse what the lock pins, so it must be named."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from packaging.version import Version

from envdoctor.facts.regular_file import read_text
from envdoctor.model.pattern import pattern
from envdoctor.standards.lock import LockedPackage
from envdoctor.standards.names import normalized

_MAXIMUM = 8 << 20

_DEPTH = 8
_NAME = pattern(r"([A-Za-z0-9][A-Za-z0-9._-]*?)\s*(?:[\[(<>=!~;@]|$)")


def contradictions(
    files: tuple[str, ...], locked: Mapping[str, LockedPackage], markers: Mapping[str, str], cwd: Path
) -> tuple[str, ...]:
    """Return a sentence for each constraint that a locked version does not meet, and for each that cannot be read."""
    found: list[str] = []
    for file in files:
        if "://" in file and not file.startswith("file://"):
            found.append(f"the constraints at {file} were not read (only local files are)")
            continue
        path = cwd / file.removeprefix("file://")
        found += list(_of_file(path, locked, markers, _DEPTH))
    return tuple(found)


def _of_file(path: Path, locked: Mapping[str, LockedPackage], markers: Mapping[str, str], depth: int) -> Iterator[str]:
    try:
        lines = read_text(path, _MAXIMUM).replace("\\\n", " ").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        yield f"the constraints in {path} could not be read: {error}"
        return
    for raw in lines:
        line = raw.split(" #")[0].strip()
        nested = line.split(maxsplit=1)
        if len(nested) == 2 and nested[0] in ("-c", "-r", "--constraint", "--requirement") and depth:
            yield from _of_file(path.parent / nested[1], locked, markers, depth - 1)
        elif line and not line.startswith(("#", "-")):
            yield from _of_line(line, path, locked, markers)


def _of_line(line: str, path: Path, locked: Mapping[str, LockedPackage], markers: Mapping[str, str]) -> Iterator[str]:
    name = _NAME.match(line)
    if name and normalized(name[1]) not in locked:
        return  # most lines of a large file are about something else
    from packaging.requirements import InvalidRequirement, Requirement  # noqa: PLC0415 - slow, and seldom needed

    try:
        requirement = Requirement(line.split(" --hash", maxsplit=1)[0])
    except InvalidRequirement:
        yield f"{path}: `{line}` could not be understood"
        return
    package = locked.get(normalized(requirement.name))
    if package is None or (requirement.marker and not requirement.marker.evaluate(dict(markers))):
        return
    if not requirement.specifier.contains(Version(package.version), prereleases=True):
        yield (
            f"the constraint `{line}` ({path}) contradicts the lock, which has {package.name} {package.version}; "
            "the lock is followed, the constraint is not"
        )
