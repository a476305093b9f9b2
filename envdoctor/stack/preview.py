"""What uv would do with pinned requirements, asked without doing it: which wheels it has already, which it lacks."""

import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name

from envdoctor.model.lock import LockedPackage
from envdoctor.model.plan import Interpreter
from envdoctor.stack.settings import Reach
from envdoctor.stack.uv import Uv, UvError
from envdoctor.stack.uv_errors import missing

# uv has no query for its cache; its dry run says it package by package, in its log. A line it no longer writes makes a
# package "unknown", never "cached".
_CACHED = re.compile(r"(?:requirement|distribution) already cached: ([A-Za-z0-9._-]+)==")
_UNCACHED = re.compile(r"Identified uncached distribution: ([A-Za-z0-9._-]+)==")


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """Normalized names by what uv said of them."""

    cached: frozenset[str]
    """Unpacked in uv's cache, from a wheel with a locked hash."""
    uncached: frozenset[str]
    absent: frozenset[str]
    """No source that was asked has them."""


def requirements(packages: Sequence[LockedPackage]) -> str:
    """Return pinned, hashed requirement lines."""
    return "".join(
        f"{package.name}=={package.version} " + " ".join(f"--hash=sha256:{digest}" for digest in package.hashes) + "\n"
        for package in packages
    )


def cached(
    uv: Uv,
    packages: Sequence[LockedPackage],
    interpreter: Interpreter,
    reach: Reach,
    *,
    offline: bool,
) -> frozenset[str]:
    """Return the packages that uv has unpacked in its cache, from wheels with a locked hash."""
    with tempfile.TemporaryDirectory(prefix="envdoctor-") as folder:
        try:
            log = _dry_run(uv, packages, interpreter, reach, Path(folder), True, "")
            return _split(log, set()).cached
        except UvError as error:
            if missing(error.output) is None:
                raise
    # Some index page is not in the cache. Offline, uv names the gaps one by one; online, it fills all of them at once.
    if not offline:
        try:
            return preview(uv, packages, interpreter, reach, offline=False).cached
        except UvError:
            pass  # the index does not answer; what the cache holds can still be told
    return preview(uv, packages, interpreter, reach, offline=True).cached


def preview(
    uv: Uv,
    packages: Sequence[LockedPackage],
    interpreter: Interpreter,
    reach: Reach,
    *,
    offline: bool,
    torch_backend: str = "",
) -> Preview:
    """Ask uv about the packages. Raises UvError for anything but a package that a source does not have."""
    asked = list(packages)
    absent: set[str] = set()
    with tempfile.TemporaryDirectory(prefix="envdoctor-") as folder:
        while asked:
            try:
                log = _dry_run(uv, asked, interpreter, reach, Path(folder), offline, torch_backend)
            except UvError as error:
                name = missing(error.output)
                gone = [package for package in asked if name and package.name == canonicalize_name(name[0])]
                if not gone:
                    raise
                # The resolver names one package at a time.
                absent |= {package.name for package in gone}
                asked = [package for package in asked if package not in gone]
                continue
            return _split(log, absent)
    return Preview(cached=frozenset(), uncached=frozenset(), absent=frozenset(absent))


def _split(log: str, absent: set[str]) -> Preview:
    uncached = frozenset(canonicalize_name(name) for name in _UNCACHED.findall(log))
    known = frozenset(canonicalize_name(name) for name in _CACHED.findall(log))
    return Preview(cached=known - uncached, uncached=uncached, absent=frozenset(absent))


def _dry_run(
    uv: Uv,
    packages: Sequence[LockedPackage],
    interpreter: Interpreter,
    reach: Reach,
    folder: Path,
    offline: bool,  # noqa: FBT001
    torch_backend: str,
) -> str:
    arguments: list[str | Path] = ["pip", "install", "--verbose", "--dry-run", "--no-deps", "--no-build"]
    arguments += ["--require-hashes", "--requirements", "-", "--python", interpreter.path]
    # An empty target folder stands for the venv that does not exist yet: nothing counts as installed.
    arguments += ["--target", folder / "empty", "--index-strategy", "unsafe-best-match"]
    arguments += ["--offline"] if offline else []
    arguments += ["--torch-backend", torch_backend] if torch_backend else []
    # One try is enough to learn whether a source answers; the real fetch keeps uv's retries.
    variables = {**reach.variables, "UV_HTTP_RETRIES": "0"}
    return uv.run([*arguments, *reach.arguments], extra=variables, stdin=requirements(packages)).stderr
