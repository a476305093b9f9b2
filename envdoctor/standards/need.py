"""Requires-Dist lines taken apart and decided, without packaging where the line is of the usual kind.

packaging decides the rest: versions with pre-releases or epochs, markers that mix parentheses with `or`. Importing it
and parsing some hundred lines costs more than all other checks together, and in a healthy environment hardly a line
needs it.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from envdoctor.model.frozen import frozen
from envdoctor.model.pattern import pattern
from envdoctor.standards.names import normalized

if TYPE_CHECKING:  # see the docstring
    from packaging.markers import Marker

_LINE = pattern(
    r"^\s*(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[(?P<extras>[^\]]*)\])?\s*"
    r"(?:@\s*(?P<url>[^\s;]+)|\(?(?P<specifier>(?:[~=!<>][^;@()\[\]]*)?)\)?)\s*(?:;\s*(?P<marker>.+))?$"
)
_ATOM = pattern(
    r"""^\s*(?P<name>\w+)\s*(?P<operator>===?|!=|<=?|>=?)\s*(?P<quote>["'])(?P<value>[^"']*)(?P=quote)\s*$"""
)
_CLAUSE = pattern(
    r"^\s*(?P<operator>~=|==|!=|<=|>=|<|>)\s*(?P<release>\d+(?:\.\d+)*)(?P<pre>[._-]?(?:a|b|rc)[._-]?\d+)?(?P<prefix>\.\*)?\s*$"
)
_EXTRA = pattern(r"""\bextra\s*==\s*["']([^"']*)["']""")
_OR = pattern(r"\bor\b")
_AND = pattern(r"\band\b")
_VERSION = pattern(r"^(?P<release>\d+(?:\.\d+)*)(?P<rest>(?:[.-]?(?:a|b|rc|post|dev)\d*)*)(?:\+[A-Za-z0-9.]+)?$")
_NUMBERS = frozenset({"python_version", "python_full_version", "implementation_version"})


def linux_markers(version: str, machine: str) -> dict[str, str]:
    """Return the PEP 508 environment of a CPython ("3.12" or "3.12.4") on Linux on such a machine ("x86_64")."""
    full = version if version.count(".") > 1 else f"{version}.0"
    return {
        "implementation_name": "cpython",
        "implementation_version": full,
        "os_name": "posix",
        "platform_machine": machine,
        "platform_python_implementation": "CPython",
        "platform_release": "",
        "platform_system": "Linux",
        "platform_version": "",
        "python_full_version": full,
        "python_version": ".".join(version.split(".")[:2]),
        "sys_platform": "linux",
    }


@frozen
class Need:
    """One requirement."""

    name: str
    """Normalized."""
    extras: tuple[str, ...]
    """Normalized, of the required distribution."""
    specifier: str
    """">=1.1.0,<2"; empty for any version and for a URL."""
    marker: str


def parse_need(line: str) -> Need | None:
    """Return the parsed line, or None when it is malformed: it then requires nothing."""
    match = _LINE.match(line)
    if match is None:
        return None
    extras = tuple(normalized(extra.strip()) for extra in (match["extras"] or "").split(",") if extra.strip())
    return Need(
        name=normalized(match["name"]),
        extras=extras,
        specifier=(match["specifier"] or "").strip(),
        marker=(match["marker"] or "").strip(),
    )


def holds(marker: str, environment: Mapping[str, str], extras: Collection[str] = ()) -> bool:
    """Tell whether a marker holds in that environment (PEP 508 names -> values) for a distribution with those extras.

    A marker that cannot be parsed does not hold.
    """
    if not marker:
        return True
    if "extra" not in marker:
        return _evaluate(marker, environment, "")
    written = _EXTRA.findall(marker)
    named = {normalized(name) for name in written}
    if named and named.isdisjoint(extras) and not _OR.search(marker):
        return False
    # An extra that the marker does not compare with decides as none does; CUDA's toolkit is asked for fifteen.
    deciding = [extra for extra in extras if extra in named] if len(written) == marker.count("extra") else extras
    return any(_evaluate(marker, environment, extra) for extra in ("", *deciding))


def extras_of(marker: str) -> tuple[str, ...]:
    """Return the extras a marker names, normalized, each once, in its order."""
    return tuple(dict.fromkeys(normalized(name) for name in _EXTRA.findall(marker)))


def agree(specifiers: Iterable[str]) -> bool:
    """Tell whether some version can satisfy all the specifiers: each version they name, and those just beside it.

    One that cannot be parsed excludes nothing.
    """
    from packaging.specifiers import InvalidSpecifier, SpecifierSet  # noqa: PLC0415 - see the docstring

    clauses: set[str] = {clause.strip() for text in specifiers for clause in text.split(",") if clause.strip()}
    try:
        wanted = SpecifierSet(",".join(clauses))
    except InvalidSpecifier:
        return True
    named = {match["release"] for clause in clauses if (match := _CLAUSE.match(clause))}
    candidates = [version for release in named for version in _beside(release)]
    return not candidates or any(wanted.contains(version, prereleases=True) for version in candidates)


def _beside(release: str) -> Iterator[str]:
    numbers = _numbers(release)
    yield release
    yield f"{release}.1"
    # The next one below 2.0 is 1.9999.
    while numbers and not numbers[-1]:
        numbers = numbers[:-1]
    if numbers:
        yield ".".join(map(str, (*numbers[:-1], numbers[-1] - 1, 9999)))


def _evaluate(marker: str, environment: Mapping[str, str], extra: str) -> bool:
    ways = _OR.split(marker)
    if "(" in marker and len(ways) == 1:
        ways = [marker.replace("(", "").replace(")", "")]  # with `and` alone they change nothing
    if "(" not in ways[0]:
        # Without parentheses `or` binds last, so splitting there first is the grammar itself.
        atoms = [[_atom(atom, environment, extra) for atom in _AND.split(way)] for way in ways]
        if all(decided is not None for way in atoms for decided in way):
            return any(all(way) for way in atoms)
    from packaging.markers import (  # noqa: PLC0415 - see the docstring
        InvalidMarker,
        UndefinedComparison,
        UndefinedEnvironmentName,
    )

    try:
        return _parsed_marker(marker).evaluate({**environment, "extra": extra})
    except (InvalidMarker, UndefinedComparison, UndefinedEnvironmentName):
        return False


@lru_cache(maxsize=1024)
def _parsed_marker(marker: str) -> "Marker":
    from packaging.markers import Marker  # noqa: PLC0415 - see the docstring

    return Marker(marker)


def _atom(text: str, environment: Mapping[str, str], extra: str) -> bool | None:
    """Decide one comparison; None when it is of a rarer kind."""
    match = _ATOM.match(text)
    if match is None:
        return None
    name, operator, value = match["name"], match["operator"], match["value"]
    if name == "extra":
        return _same(operator, normalized(extra), normalized(value))
    if name not in environment:
        return None
    if name in _NUMBERS:
        return _clause(f"{operator}{value}", environment[name])
    return _same(operator, environment[name], value)


def _same(operator: str, one: str, other: str) -> bool | None:
    return {"==": one == other, "!=": one != other}.get(operator)


def meets(version: str, specifier: str) -> bool:
    """Tell whether an installed version satisfies a specifier, pre-releases included (PEP 440).

    A version or a specifier that is none cannot be refused, so it satisfies.
    """
    clauses = [clause for clause in specifier.split(",") if clause.strip()]
    decided = [_clause(clause, version) for clause in clauses]
    if False in decided:
        return False
    if None not in decided:
        return True
    from packaging.specifiers import InvalidSpecifier, SpecifierSet  # noqa: PLC0415 - see the docstring
    from packaging.version import InvalidVersion, Version  # noqa: PLC0415

    try:
        return SpecifierSet(specifier).contains(Version(version), prereleases=True)
    except (InvalidSpecifier, InvalidVersion):
        return True


def _clause(clause: str, version: str) -> bool | None:
    """Decide one clause by the release numbers alone; None when they do not decide it."""
    wanted, installed = _CLAUSE.match(clause), _VERSION.match(version)
    if wanted is None or installed is None:
        return None
    operator, release = wanted["operator"], _numbers(wanted["release"])
    actual = _numbers(installed["release"])
    if wanted["prefix"] or operator == "~=":
        return (
            None
            if installed["rest"] or wanted["pre"]
            else _by_prefix(operator, release, actual, prefixed=bool(wanted["prefix"]))
        )
    length = max(len(release), len(actual))
    left, right = _padded(actual, length), _padded(release, length)
    if left == right and (installed["rest"] or wanted["pre"]):
        return None if installed["rest"] else {"==": False, "!=": True}.get(operator)
    return {
        "==": left == right,
        "!=": left != right,
        "<": left < right,
        ">": left > right,
        "<=": left <= right,
        ">=": left >= right,
    }[operator]


def _by_prefix(operator: str, release: tuple[int, ...], actual: tuple[int, ...], *, prefixed: bool) -> bool | None:
    if prefixed:
        equal = _padded(actual, len(release))[: len(release)] == release
        return {"==": equal, "!=": not equal}.get(operator)
    if len(release) < 2:
        return None
    length = max(len(release), len(actual))
    series = release[:-1]
    return _padded(actual, length) >= _padded(release, length) and _padded(actual, length)[: len(series)] == series


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def _padded(numbers: tuple[int, ...], length: int) -> tuple[int, ...]:
    return numbers + (0,) * (length - len(numbers))
