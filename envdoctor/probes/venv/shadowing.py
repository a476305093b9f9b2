"""Modules that stand in several folders of sys.path: the first folder wins, whatever the metadata says."""

import itertools
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from envdoctor.facts.context import Reading
from envdoctor.model.frozen import frozen
from envdoctor.probes.venv.beside import Beside, besides, unlisted
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.probes.venv.records import index
from envdoctor.probes.venv.search_path import PathEntry, SearchPath

CURRENT_FOLDER = "current folder"
_SUFFIXES = (".py", ".so")
_DEBIAN = "/lib/python3/dist-packages"
_STANDARD_OF_TORCH = frozenset(
    # As text: a list of strings would be one line for each of them.
    """
    argparse ast asyncio base64 bisect bz2 calendar collections concurrent contextlib contextvars copy csv ctypes
    dataclasses datetime difflib dis email enum fnmatch functools gettext glob gzip hashlib heapq http importlib
    inspect ipaddress json keyword linecache locale logging lzma multiprocessing numbers opcode operator pathlib
    pickle pickletools pkgutil platform pprint queue quopri random re reprlib selectors shutil signal socket ssl
    string struct subprocess tarfile tempfile textwrap threading timeit token tokenize traceback types typing
    unittest urllib uuid warnings weakref zipfile
    """.split()  # noqa: SIM905
)
"""Python modules of the standard library that `import torch` imports (2.13.0 on CPython 3.11), but those that are
frozen into the interpreter or written in C: a build may hold these in itself, where no file shadows them."""


@frozen
class Shadow:
    """One module that is taken from a folder in front of the one that holds its distribution."""

    module: str
    front: str
    """Folder of sys.path that wins."""
    front_origin: str
    """As SearchPath says it, or "current folder": Python puts a script's or `-m`'s folder before all others."""
    behind: str
    behind_origin: str


@frozen
class Shadowing:
    """Every module that another one of its name hides.

    A venv in front of its own base or the user site is as it should be and not listed, and so is a user site in front
    of what Debian's own packages installed.
    """

    shadows: tuple[Shadow, ...]
    beside: tuple[Beside, ...] = ()
    """What another file of its own folder is imported in front of."""
    unlisted: tuple[str, ...] = ()
    """Packages of the environment's own site-packages, absolute, of which no RECORD lists a file."""


_STANDARD = PathEntry(path="the standard library", origin="standard library")


def probe(reading: Reading) -> Shadowing:
    """Compare the top-level names of the folders on sys.path, pair by pair, and the current folder with them all."""
    entries = reading.fact(SearchPath).entries
    return Shadowing(
        shadows=(*_by_entries(reading, entries), *_by_current_folder(reading, entries)),
        beside=tuple(besides(reading)),
        unlisted=tuple(unlisted(reading)),
    )


def _by_entries(reading: Reading, entries: tuple[PathEntry, ...]) -> Iterator[Shadow]:
    own = [entry for entry in entries if entry.origin == "site-packages"]
    first_own = next((at for at, entry in enumerate(entries) if entry in own), 0)
    # The user site shadows an environment that is not a venv: a conda prefix, a container's Python.
    leaks = [
        entry
        for at, entry in enumerate(entries)
        if entry.origin == "PYTHONPATH" or (entry.origin == "user site" and at < first_own)
    ]
    added = [entry for entry in entries if entry.origin.endswith(".pth")]
    standard = sys.stdlib_module_names
    for front in leaks:
        names = _names(front)
        below = own if front.origin == "PYTHONPATH" else [entry for entry in own if not entry.path.endswith(_DEBIAN)]
        behind = [(other, _names(other)) for other in below]
        for name in sorted(names):
            holder = next((other for other, held in behind if name in held), None)
            if holder is not None and _wins(front, name):
                yield _shadow(name, front, holder)
            elif (
                front.origin == "PYTHONPATH"
                and name in standard
                and _wins(front, name)
                and not _is_standard_library(front)
            ):
                yield _shadow(name, front, _STANDARD)
    # lib and lib64 of one venv: a package in both is split, and the part in the second is never imported. Debian's
    # dist-packages are no such pair: what the administrator installs stands before what dpkg does.
    split = [entry for entry in own if entry.path.endswith("site-packages")]
    for front, other in itertools.pairwise(split):
        yield from (_shadow(name, front, other) for name in sorted(_names(front) & _names(other)) if _wins(front, name))
    editable = {item.name.replace("-", "_") for item in reading.fact(Distributions).items if item.editable}
    for front in own if added and editable else ():
        names = _names(front) & editable
        yield from (
            _shadow(name, front, other)
            for other in added
            for name in sorted(names & _names(other))
            if _wins(front, name)
        )


def _by_current_folder(reading: Reading, entries: tuple[PathEntry, ...]) -> Iterator[Shadow]:
    """Yield the installed distributions' own modules that are in the current folder.

    Only names that a distribution bears itself, or that are its one module: a project's `tests` or `utils` in front of
    somebody's is meant. Modules
    of the standard library are listed where torch needs them: `test` or `code` of a project do no harm.
    """
    cwd = reading.host.cwd
    inside = any(cwd == Path(entry.path) for entry in entries) or cwd.is_relative_to(reading.target.prefix)
    if inside or reading.host.environ.get("PYTHONSAFEPATH"):
        return
    here = PathEntry(path=str(cwd), origin=CURRENT_FOLDER)
    present = _names(here)
    if not _is_standard_library(here):
        needed = sorted(present & _STANDARD_OF_TORCH)
        yield from (_shadow(name, here, _STANDARD) for name in needed if _wins(here, name))
    items = reading.fact(Distributions).items
    named = {item.name.replace("-", "_") for item in items}
    for item in items:
        name = item.name.replace("-", "_")
        if not item.shadowed and not item.editable and _wins(here, name) and _is_there(item.site, name):
            yield _shadow(name, here, PathEntry(path=item.site, origin=item.origin))
    for site in dict.fromkeys(item.site for item in items if item.origin == "site-packages"):
        below = PathEntry(path=site, origin="site-packages")
        for name in sorted((present & _names(below)) - named):
            if _wins(below, name) and _wins(here, name) and _is_only_module(reading, site, name):
                yield _shadow(name, here, below)


def _is_only_module(reading: Reading, site: str, name: str) -> bool:
    """Tell a module that is all that its distribution installs, private ones (`_yaml`) left out: it is named so."""
    files = (f"{site}/{name}{end}" for end in ("/__init__.py", ".py"))
    at = next((at for file in files if (at := index(reading).owner_of(file)) is not None), None)
    if at is None or reading.fact(Distributions).items[at].editable:
        return False
    tops = {path.partition("/")[0].partition(".")[0] for path, _, _ in index(reading).rows[at] if path.endswith(".py")}
    return {top for top in tops if top.isidentifier() and not top.startswith("_")} == {name}


def _shadow(name: str, front: PathEntry, behind: PathEntry) -> Shadow:
    return Shadow(
        module=name, front=front.path, front_origin=front.origin, behind=behind.path, behind_origin=behind.origin
    )


def _names(entry: PathEntry) -> set[str]:
    """Return the names in a folder that an import statement could mean; a name that is not a module stays harmless."""
    try:
        listed = os.listdir(entry.path)  # noqa: PTH208 - names only, and fast
    except OSError:
        return set()
    stems = (name.partition(".")[0] if name.endswith(_SUFFIXES) else name for name in listed)
    return {stem for stem in stems if stem.isidentifier() and stem != "__pycache__"}


def _wins(entry: PathEntry, name: str) -> bool:
    return _wins_in(entry.path, name)


def _wins_in(folder: str, name: str) -> bool:
    """Tell whether a folder holds a regular package or module of that name: a namespace portion gives way (PEP 420)."""
    at = f"{folder}/{name}"
    return (
        os.path.isfile(f"{at}/__init__.py")  # noqa: PTH113 - strings: this runs for every distribution
        or os.path.isfile(f"{at}.py")  # noqa: PTH113
        or os.path.isfile(f"{at}.so")  # noqa: PTH113
        or os.path.isfile(f"{at}.abi3.so")  # noqa: PTH113
    )


def _is_there(folder: str, name: str) -> bool:
    return os.path.isdir(f"{folder}/{name}") or _wins_in(folder, name)  # noqa: PTH112


def _is_standard_library(entry: PathEntry) -> bool:
    return os.path.isfile(f"{entry.path}/os.py") and os.path.isfile(f"{entry.path}/site.py")  # noqa: PTH113
