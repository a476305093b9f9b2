"""Code that runs at every start of the interpreter: .pth imports, sitecustomize, usercustomize. Read, never run."""

import os
from pathlib import Path

from envdoctor.facts.context import Reading
from envdoctor.model.frozen import frozen
from envdoctor.probes.venv.distributions import Distribution, Distributions
from envdoctor.probes.venv.records import index
from envdoctor.probes.venv.search_path import SearchPath, pth_lines

_LONGEST = 20_000


@frozen
class Hook:
    """One file that runs code at start-up."""

    path: str
    lines: tuple[str, ...]
    """The import lines of a .pth file; empty for a customize module."""
    owner: str
    """Owning distribution, or empty."""
    origin: str
    """Why its folder is on sys.path."""


@frozen
class StartupHooks:
    """All start-up hooks on sys.path."""

    hooks: tuple[Hook, ...]


def probe(reading: Reading) -> StartupHooks:
    """List .pth files with import lines in site folders, and customize modules anywhere on sys.path."""
    owners, items = index(reading).owners, reading.fact(Distributions).items
    hooks: list[Hook] = []
    for entry in reading.fact(SearchPath).entries:
        folder = Path(entry.path)
        if entry.origin not in ("standard library", "PYTHONPATH"):
            names = sorted(name for name in os.listdir(folder) if name.endswith(".pth"))  # noqa: PTH208 - names only
            with_code = ((folder / name, _code(folder / name)) for name in names)
            hooks += [_hook(path, code, entry.origin, owners, items) for path, code in with_code if code]
        for module in ("sitecustomize", "usercustomize"):
            places = (folder / f"{module}.py", folder / module / "__init__.py")
            hooks += [_hook(at, (), entry.origin, owners, items) for at in places if at.is_file()]
    return StartupHooks(hooks=tuple(hooks))


def _code(path: Path) -> tuple[str, ...]:
    try:
        lines = pth_lines(path)
    except OSError:
        return ()  # SearchPath says it
    return tuple(line[:_LONGEST] for line in lines if line.startswith(("import ", "import\t")))


def _hook(
    path: Path, lines: tuple[str, ...], origin: str, owners: dict[str, int], items: tuple[Distribution, ...]
) -> Hook:
    at = owners.get(str(path))
    return Hook(path=str(path), lines=lines, owner="" if at is None else items[at].name, origin=origin)
