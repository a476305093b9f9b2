"""What uv would do with pinned requirements, asked without doing it: which wheels it has already, which it lacks."""

from collections.abc import Sequence
from pathlib import Path

from packaging.utils import canonicalize_name

from envdoctor.model.frozen import frozen, replace
from envdoctor.model.pattern import pattern
from envdoctor.model.plan import BaseInterpreter
from envdoctor.standards.lock import LockedPackage
from envdoctor.wheels.index_config import IndexAccess
from envdoctor.wheels.temporary import temporary_folder
from envdoctor.wheels.uv import Uv, UvError, UvNotStartedError
from envdoctor.wheels.uv_errors import missing

# uv has no query for its cache; its dry run says it package by package, in its log. A line it no longer writes makes a
# package "unknown", never "cached".
_CACHED = pattern(r"(?:requirement|distribution) already cached: ([A-Za-z0-9._-]+)==")
_UNCACHED = pattern(r"Identified uncached distribution: ([A-Za-z0-9._-]+)==")


@frozen
class Preview:
    """Normalized names by what uv said of them."""

    cached: frozenset[str] = frozenset()
    """Unpacked in uv's cache, from a wheel with a locked hash."""
    uncached: frozenset[str] = frozenset()
    absent: frozenset[str] = frozenset()
    """No source that was asked has them."""
    unknown: frozenset[str] = frozenset()
    """The source has them; whether the cache has them too, the log did not say."""


def requirements(packages: Sequence[LockedPackage]) -> str:
    """Return pinned, hashed requirement lines."""
    return "".join(
        f"{package.name}=={package.version} " + " ".join(f"--hash=sha256:{digest}" for digest in package.hashes) + "\n"
        for package in packages
    )


def cached(
    uv: Uv,
    packages: Sequence[LockedPackage],
    interpreter: BaseInterpreter,
    reach: IndexAccess,
    *,
    offline: bool,
    torch_backend: str = "",
) -> Preview:
    """Ask what uv has in its cache. `offline` forbids to fetch the index pages it lacks."""
    with temporary_folder() as folder:
        try:
            return _asked(uv, packages, interpreter, reach, folder, torch_backend, offline=True)
        except UvError as error:
            if missing(error.output) is None:
                raise
    # Some index page is not in the cache. Offline, uv names the gaps one by one; online, it fills all of them at once.
    if not offline:
        try:
            return preview(uv, packages, interpreter, reach, offline=False, torch_backend=torch_backend)
        except UvNotStartedError:
            raise
        except UvError:
            pass  # the index does not answer; what the cache holds can still be told
    return preview(uv, packages, interpreter, reach, offline=True, torch_backend=torch_backend)


def preview(
    uv: Uv,
    packages: Sequence[LockedPackage],
    interpreter: BaseInterpreter,
    reach: IndexAccess,
    *,
    offline: bool,
    torch_backend: str = "",
) -> Preview:
    """Ask uv about the packages. Raises UvError for anything but a package that a source does not have."""
    asked = list(packages)
    absent: set[str] = set()
    with temporary_folder() as folder:
        while asked:
            try:
                seen = _asked(uv, asked, interpreter, reach, folder, torch_backend, offline=offline)
            except UvError as error:
                name = missing(error.output)
                gone = [package for package in asked if name and package.name == canonicalize_name(name[0])]
                if not gone:
                    raise
                # The resolver names one package at a time.
                absent |= {package.name for package in gone}
                asked = [package for package in asked if package not in gone]
                continue
            return replace(seen, absent=frozenset(absent))
    return Preview(absent=frozenset(absent))


def _asked(
    uv: Uv,
    packages: Sequence[LockedPackage],
    interpreter: BaseInterpreter,
    reach: IndexAccess,
    folder: Path,
    torch_backend: str,
    *,
    offline: bool,
) -> Preview:
    arguments: list[str | Path] = ["pip", "install", "--verbose", "--dry-run", "--no-deps", "--no-build"]
    arguments += ["--require-hashes", "--requirements", "-", "--python", interpreter.path]
    # An empty target folder stands for the venv that does not exist yet: nothing counts as installed.
    arguments += ["--target", folder / "empty", "--index-strategy", "unsafe-best-match"]
    arguments += ["--offline"] if offline else []
    arguments += ["--torch-backend", torch_backend] if torch_backend else []
    log = uv.run([*arguments, *reach.arguments], extra=reach.variables, stdin=requirements(packages)).stderr
    return read_log(log, frozenset(package.name for package in packages))


def read_log(log: str, asked: frozenset[str]) -> Preview:
    """Sort the packages that were asked for by what the log of a dry run says of each."""
    uncached = frozenset(canonicalize_name(name) for name in _UNCACHED.findall(log)) & asked
    known = frozenset(canonicalize_name(name) for name in _CACHED.findall(log)) & asked
    return Preview(cached=known - uncached, uncached=uncached, unknown=asked - known - uncached)
