"""A lock: hashed requirements that name no host."""

import re
from collections.abc import Iterable, Mapping

from envdoctor.errors import LockError
from envdoctor.model.frozen import frozen
from envdoctor.model.pattern import pattern
from envdoctor.standards.names import normalized
from envdoctor.standards.wheel_builds import is_tags, tags_in

# Extras change nothing where every distribution is pinned and none is resolved: pip-compile writes `ray[default]==…`.
_PIN = pattern(
    r"^(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)(?:\s*\[[A-Za-z0-9._,\s-]*\])?\s*==\s*(?P<version>[^\s;]+)\s*(?:;\s*(?P<marker>.+))?$"
)
_HASH = pattern(r"--hash[=\s]\s*(?P<algorithm>[a-z0-9]+):(?P<digest>[0-9A-Fa-f]+)")
# What `text_of` writes below an entry: "    # 3a807cabd511: cp311-cp311-manylinux2014_x86_64".
_TOLD = pattern(r"^[ \t]+# ([0-9a-f]{12}): (\S+)[ \t]*\r?$", re.MULTILINE)

_COMMENT = pattern(r"(?:^|\s)#.*$")
# Where wheels come from, which pip's and uv's configuration says here, and what --require-hashes implies.
_OPTION = pattern(
    r"(?P<option>--(?:index-url|extra-index-url|find-links|trusted-host|no-index|pre|prefer-binary|only-binary|no-binary"
    r"|require-hashes)|-[if])(?:[\s=].*)?$"
)


@frozen
class LockedPackage:
    """One pinned distribution: normalized name, exact version, the sha256 of every wheel that fits."""

    name: str
    version: str
    hashes: tuple[str, ...]
    """Hex sha256 digests."""
    marker: str = ""
    tags: tuple[str, ...] = ()
    """For each hash the tags in its wheel's file name ("cp311-cp311-manylinux2014_x86_64"), empty for one that is not
    known; empty where the lock says none. `check` compares them (ED418). A hash decides what is installed."""

    def applies(self, environment: Mapping[str, str]) -> bool:
        """Tell whether the marker holds in that environment (PEP 508 names -> values)."""
        if not self.marker:
            return True
        from packaging.markers import Marker  # noqa: PLC0415 - slow to import, and most locks have no marker

        return Marker(self.marker).evaluate(dict(environment))


@frozen
class Lock:
    """A parsed lock. A name stands more than once only under different markers."""

    name: str
    packages: tuple[LockedPackage, ...]
    ignored: tuple[str, ...] = ()
    """Options in it that are not used ("--index-url")."""
    install: str = ""
    """The command of its own tool that installs it, with {python} and {prefix}; empty for a profile's lock."""

    def select(self, environment: Mapping[str, str]) -> dict[str, LockedPackage]:
        """Return normalized name -> the package that applies in that environment."""
        return {package.name: package for package in self.packages if package.applies(environment)}


def parse(text: str, name: str) -> Lock:
    """Parse `name==version [; marker] --hash=sha256:…` lines (pip's hashed requirements).

    A byte order mark and options that name sources are passed over. Raises LockError, naming the line, for anything
    else: a URL, an editable, another option, a range, a missing hash.
    """
    lines = logical_lines(text)
    options = [match["option"] for line in lines if (match := _OPTION.match(line))]
    told = {start: tags for start, tags in _TOLD.findall(text) if is_tags(tags)}
    packages = [_parse_line(line, name, told) for line in lines if not _OPTION.match(line)]
    if not packages:
        raise LockError(f"{name}: the lock pins nothing", "a lock line reads `name==version --hash=sha256:…`")
    _refuse_twice(packages, name)
    return Lock(name=name, packages=tuple(packages), ignored=tuple(dict.fromkeys(options)))


def logical_lines(text: str) -> list[str]:
    """Return the lines of a requirements file as pip reads them (its `_internal/req/req_file.py`: `preprocess`).

    A backslash at the end of a line joins the next one, except after a comment: that one begins no join, and ends one.
    Comments and empty lines are left out; a comment begins at a "#" at the start of a line or after white space.
    """
    joined: list[str] = []
    begun: list[str] = []
    for line in text.removeprefix("\ufeff").splitlines():
        comment = line.lstrip().startswith("#")
        if line.endswith("\\") and not comment:
            begun.append(line[:-1])
            continue
        joined.append("".join([*begun, f" {line}" if comment else line]))
        begun = []
    joined.append("".join(begun))
    return [bare for line in joined if (bare := _COMMENT.sub("", line).strip())]


def tags_of(filenames: Iterable[str]) -> tuple[str, ...]:
    """Return the tags of the wheels, in order; nothing where no name has any."""
    found = tuple(map(tags_in, filenames))
    return found if any(found) else ()


def _parse_line(line: str, lock: str, told: Mapping[str, str]) -> LockedPackage:
    hashes = [(match["algorithm"], match["digest"].lower()) for match in _HASH.finditer(line)]
    requirement = _HASH.sub("", line).strip()
    shown = requirement if len(requirement) <= 80 else requirement[:77] + "..."
    pin = _PIN.match(requirement)
    if pin is None:
        hint = "a lock line reads `name==version --hash=sha256:…`"
        if requirement.startswith(("-e", "--editable", ".", "/", "file:")):
            hint += "; export a uv project without itself: `uv export --no-emit-project`"
        raise LockError(f"{lock}: `{shown}` is not an exact pin", hint)
    digests = tuple(digest for algorithm, digest in hashes if algorithm == "sha256" and len(digest) == 64)
    if not digests or len(digests) != len(hashes):
        raise LockError(f"{lock}: `{shown}` carries no usable sha256", "lock it again, or add `--hash=sha256:…`")
    marker = (pin["marker"] or "").strip()
    try:
        _validate(pin["version"], marker)
    except ValueError as error:
        raise LockError(f"{lock}: `{shown}`: {error}", "correct the line") from error
    except RecursionError as error:  # packaging before 26.4 parses parentheses by recursion
        raise LockError(f"{lock}: `{shown}`: the marker is nested too deeply", "correct the line") from error
    tags = tuple(told.get(digest[:12], "") for digest in digests)
    return LockedPackage(
        name=normalized(pin["name"]),
        version=pin["version"],
        hashes=digests,
        marker=marker,
        tags=tags if any(tags) else (),
    )


def _validate(version: str, marker: str) -> None:
    # packaging's errors are all ValueErrors. A check without a profile has no lock and pays for none of this.
    from packaging.version import Version  # noqa: PLC0415

    Version(version)
    if marker:
        from packaging.markers import Marker  # noqa: PLC0415

        Marker(marker)


def _refuse_twice(packages: list[LockedPackage], lock: str) -> None:
    seen: dict[tuple[str, str], LockedPackage] = {}
    for package in packages:
        other = seen.setdefault((package.name, package.marker), package)
        if other is not package:
            raise LockError(
                f"{lock}: {package.name} is pinned twice ({other.version} and {package.version})",
                "keep one line, or give each its own marker",
            )
