"""Extension modules that this interpreter cannot import, by their file names.

`name.cpython-310-x86_64-linux-gnu.so` is importable by CPython 3.10 on x86_64 alone (PEP 3149); `.abi3.so` and plain
`.so` by any (importlib.machinery.EXTENSION_SUFFIXES).
"""

import re
from collections.abc import Iterable

from envdoctor.facts.context import Reading
from envdoctor.model.frozen import frozen
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.probes.venv.interpreter import Interpreter
from envdoctor.probes.venv.records import index

_TAGGED = re.compile(r"^(?P<stem>.+?)\.(?P<tag>(?:cpython|pypy|graalpy)-?\w*-[\w-]+|cp\d+-[\w-]+)\.(?:so|pyd)$")
_CPYTHON = re.compile(r"cpython-3(?P<minor>\d+)(?P<threads>t?)d?-(?P<machine>\w+?)-")


@frozen
class ForeignExtension:
    """An extension module that only another interpreter or machine can import."""

    owner: str
    path: str
    """Relative to its site folder."""
    tag: str
    """"cpython-310-x86_64-linux-gnu"."""
    beside: int = 0
    """How many extension modules of the same distribution this interpreter can import."""


@frozen
class ExtensionModules:
    """Tagged extension modules in RECORDs."""

    tagged: int
    """How many carry a tag."""
    foreign: tuple[ForeignExtension, ...]
    """Those with a foreign tag and no sibling that fits; a wheel may bring one file for each Python."""


def probe(reading: Reading) -> ExtensionModules:
    """Compare the tags in every RECORD's file names with the interpreter."""
    python = reading.fact(Interpreter)
    items = reading.fact(Distributions).items
    tagged, foreign = 0, []
    for at, rows in index(reading).rows.items():
        # Cheap tests first: of tens of thousands of rows, some hundred are extension modules.
        names = [path for path, _, _ in rows if path[-3:] in (".so", "pyd") and "-" in path]
        matches = [(path, match) for path in names if (match := _TAGGED.match(path))]
        tagged += len(matches)
        unfit = [(path, match) for path, match in matches if not _fits(match["tag"], python)]
        if unfit:
            stems = _importable_stems((path for path, _, _ in rows), python)
            beside = sum(importable(path.rpartition("/")[2], python) for path, _, _ in rows if _is_module(path))
            foreign += [
                ForeignExtension(owner=items[at].name, path=path, tag=match["tag"], beside=beside)
                for path, match in unfit
                if match["stem"] not in stems
            ]
    return ExtensionModules(tagged=tagged, foreign=tuple(foreign))


def _is_module(path: str) -> bool:
    return path.endswith(".so") and not path.rpartition("/")[2].startswith("lib")


def importable(name: str, python: Interpreter) -> bool:
    """Tell whether a file of that name is an extension module for this interpreter."""
    match = _TAGGED.match(name)
    return _fits(match["tag"], python) if match else name.endswith(".so")


def is_tagged(name: str, python: Interpreter) -> bool:
    """Tell whether a file's name says that it is an extension module, and one for this interpreter."""
    return (name.endswith(".abi3.so") or _TAGGED.match(name) is not None) and importable(name, python)


def _fits(tag: str, python: Interpreter) -> bool:
    match = _CPYTHON.match(tag)
    if match is None:
        return False
    same_python = f"3.{match['minor']}" == python.minor and (match["threads"] == "t") == python.free_threaded
    return same_python and match["machine"] == python.machine


def _importable_stems(paths: Iterable[str], python: Interpreter) -> set[str]:
    stems = set()
    for path in paths:
        if match := _TAGGED.match(path):
            if _fits(match["tag"], python):
                stems.add(match["stem"])
        elif path.endswith((".abi3.so", ".so", ".py")):
            stems.add(path.removesuffix(".py").removesuffix(".so").removesuffix(".abi3"))
    return stems
