"""Extension modules that this interpreter cannot import, by their file names, and what wheels' own tags are worth.

`name.cpython-310-x86_64-linux-gnu.so` is importable by CPython 3.10 on x86_64 alone (PEP 3149); `.abi3.so` and plain
`.so` by any (importlib.machinery.EXTENSION_SUFFIXES). A file that exports no PyInit_NAME is not a module, whatever its
name: torchao opens `_C_mxfp8.cpython-310-x86_64-linux-gnu.so` with torch.ops.load_library() on every Python.

Installers go by the tags of a wheel's file name. Those inside of it, in WHEEL, are of the build: decord and torchvision
rename the file afterwards. So they accuse nothing by themselves, and the files are looked at.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from envdoctor.elf import reader
from envdoctor.elf.symbols import SymbolTable
from envdoctor.errors import ElfError
from envdoctor.facts.context import Reading
from envdoctor.model.frozen import frozen
from envdoctor.model.pattern import pattern
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.probes.venv.interpreter import Interpreter
from envdoctor.probes.venv.records import index
from envdoctor.probes.venv.rows import Fields, binaries

_TAGGED = pattern(r"^(?P<stem>.+?)\.(?P<tag>(?:cpython|pypy|graalpy)-?\w*-[\w-]+|cp\d+-[\w-]+)\.(?:so|pyd)$")
_CPYTHON = pattern(r"cpython-3(?P<minor>\d+)(?P<threads>t?)d?-(?P<machine>\w+?)-linux-gnu\w*\Z")
_PYTHON_TAG = pattern(r"^(?P<kind>cp|py)3(?P<minor>\d*)$")
_OTHER_SYSTEM = (".pyd", ".dylib", ".dll")
_MACHINES = {"x86_64": reader.EM_X86_64, "aarch64": reader.EM_AARCH64}
_MAXIMUM_LOOKED_AT = 200


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
class Witness:
    """What the files of a wheel say, none of whose tags fits this interpreter."""

    owner: str
    path: str
    """Relative to its site folder."""
    kind: Literal["machine", "module"]
    """"machine": it was compiled for another machine or system. "module": an extension module whose name does not say
    which Python it was compiled for, so that the wheel's tag is all there is."""


@frozen
class ExtensionModules:
    """Tagged extension modules in RECORDs."""

    tagged: int
    """How many carry a tag."""
    foreign: tuple[ForeignExtension, ...]
    """Those with a foreign tag and no sibling that fits; a wheel may bring one file for each Python."""
    unfit: tuple[str, ...] = ()
    """Distributions none of whose wheel's tags fits this interpreter."""
    witnesses: tuple[Witness, ...] = ()
    """One at most for each distribution whose tags do not fit."""


def probe(reading: Reading) -> ExtensionModules:
    """Compare the tags in every RECORD's file names with the interpreter."""
    python = reading.fact(Interpreter)
    items = reading.fact(Distributions).items
    tagged, foreign = 0, []
    # What is hidden by another one of its name is imported by nobody.
    seen = [(at, rows) for at, rows in index(reading).rows.items() if not items[at].shadowed]
    for at, rows in seen:
        # Cheap tests first: of a thousand binaries, some hundred are extension modules.
        names = [path for path in binaries(rows) if path[-3:] in (".so", "pyd") and "-" in path]
        matches = [(path, match) for path in names if (match := _TAGGED.match(path))]
        tagged += len(matches)
        unfit = [(path, match) for path, match in matches if not _fits(match["tag"], python)]
        if unfit:
            stems = _importable_stems((path for path, _, _ in rows), python)
            beside = sum(importable(path.rpartition("/")[2], python) for path, _, _ in rows if _is_module(path))
            foreign += [
                ForeignExtension(owner=items[at].name, path=path, tag=match["tag"], beside=beside)
                for path, match in unfit
                if match["stem"] not in stems and _may_be_module(f"{items[at].site}/{path}")
            ]
    odd = [at for at, _ in seen if items[at].tags and not any_fits(items[at].tags, python)]
    witnesses = (_witness(items[at].name, items[at].site, index(reading).rows[at], python) for at in odd)
    return ExtensionModules(
        tagged=tagged,
        foreign=tuple(foreign),
        unfit=tuple(items[at].name for at in odd),
        witnesses=tuple(filter(None, witnesses)),
    )


def _may_be_module(path: str) -> bool:
    """Tell whether a file exports the function that Python calls; one that cannot be read may."""
    try:
        return SymbolTable(path).defines(f"PyInit_{path.rpartition('/')[2].partition('.')[0]}")
    except ElfError:
        return True


def _witness(owner: str, site: str, rows: Sequence[Fields], python: Interpreter) -> Witness | None:
    found = list(_witnesses(owner, site, [row[0] for row in rows], python))
    return min(found, key=lambda witness: witness.kind, default=None)


def _witnesses(owner: str, site: str, paths: Iterable[str], python: Interpreter) -> Iterator[Witness]:
    compiled = [path for path in paths if path.endswith((".so", *_OTHER_SYSTEM)) or ".so." in path]
    for path in compiled[:_MAXIMUM_LOOKED_AT]:
        if path.endswith(_OTHER_SYSTEM):
            yield Witness(owner=owner, path=path, kind="machine")
            continue
        try:
            elf = reader.read(f"{site}/{path}")
        except ElfError:
            continue
        if elf.machine != _MACHINES.get(python.machine, elf.machine):
            yield Witness(owner=owner, path=path, kind="machine")
        elif path.endswith(".so") and not path.endswith(".abi3.so") and _may_be_module(f"{site}/{path}"):
            yield Witness(owner=owner, path=path, kind="module")


def any_fits(tags: Iterable[str], python: Interpreter) -> bool:
    """Tell whether one of a wheel's tags fits (PEP 425); a tag of an unknown form is not refused."""
    return any(_tag_fits(tag, python) for tag in tags)


def _tag_fits(tag: str, python: Interpreter) -> bool:
    parts = tag.split("-")
    if len(parts) != 3:
        return True
    interpreter, abi, platform = parts
    machine = platform == "any" or (
        platform.startswith(("linux", "manylinux", "musllinux")) and python.machine in platform
    )
    if not machine:
        return False
    stated = python.minor.partition(".")[2]
    if not (stated.isascii() and stated.isdecimal()):
        return True  # a fingerprint that was edited; a probe writes a number
    own = int(stated)
    match = _PYTHON_TAG.match(interpreter)
    if match is None:
        return interpreter not in ("py2", "cp27")
    minor = int(match["minor"]) if match["minor"] else None
    if match["kind"] == "py" or abi in ("none", "abi3"):
        return minor is None or minor <= own
    return minor == own and abi.endswith("t") == python.free_threaded


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
