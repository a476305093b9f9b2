"""Bytecode that Python runs without a look at its source: without one, or not of the one that is there.

A .pyc with the flags 0b01 (PEP 552, "unchecked hash-based") is never compared with its .py: `compileall
--invalidation-mode unchecked-hash` writes them, as some packagers do. One with a time or a checked hash is compared at
each import.
"""

import _imp
import os
import re
from collections.abc import Iterator

from envdoctor.facts.context import Reading
from envdoctor.facts.regular_file import read_prefix, read_regular
from envdoctor.model.frozen import frozen
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.probes.venv.interpreter import Interpreter
from envdoctor.probes.venv.records import index

_HEADER, _UNCHECKED = 16, 0b01
_MAGIC = {"3.8": 3413, "3.9": 3425, "3.10": 3439, "3.11": 3495, "3.12": 3531, "3.13": 3571, "3.14": 3627}
"""Version -> the number that its bytecode begins with (CPython, Include/internal/pycore_magic_number.h)."""
_CODE = frozenset({ord("c"), ord("c") | 0x80})
"""What the marshalled code of a module begins with, after the header (CPython, Python/marshal.c)."""
_READS_SOURCE = tuple(
    bytes([len(name)]) + name for name in (b"triton", b"triton.language", b"torch.jit", b"getsource", b"getsourcelines")
)
"""Names as marshalled, length first, of what cannot do without the source: triton.jit and torch.jit read it."""
_OF_SOURCE = re.compile(r"/(?:site|dist)-packages/(?:torch|triton)/")
_MAXIMUM_BYTECODE = 4 * 1024 * 1024
_MAXIMUM_SOURCE = 16 * 1024 * 1024


@frozen
class StaleBytecode:
    """One such file."""

    owner: str
    source: str
    """Absolute."""
    bytecode: str
    """Absolute."""


def is_sourceless(source: str, minor: str) -> bool:
    """Tell a module whose .py is gone and whose .pyc, for that Python, is in its place; it is imported from that.

    `python -m compileall -b` writes them there (PEP 3147), and images are made smaller so. That the bytecode is whole,
    and that it is of that source, is not known: reading it takes the Python that wrote it. One that ends with its
    header is not in place of anything, nor is that of torch, of triton, and of code that reads its own source.
    """
    if _OF_SOURCE.search(source):
        return False
    try:
        data = read_prefix(f"{source}c", _MAXIMUM_BYTECODE)
    except OSError:
        return False
    if _MAGIC.get(minor) != int.from_bytes(data[:2], "little") or not _CODE.issuperset(data[_HEADER : _HEADER + 1]):
        return False
    return len(data) > _HEADER and not any(name in data for name in _READS_SOURCE)


def stale_bytecode(reading: Reading) -> Iterator[StaleBytecode]:
    """Look at the bytecode of every module that a RECORD of the environment lists, for its own interpreter."""
    python = reading.fact(Interpreter)
    tag = f".cpython-{python.minor.replace('.', '')}{'t' if python.free_threaded else ''}.pyc"
    items, records = reading.fact(Distributions).items, index(reading)
    folders: dict[str, frozenset[str]] = {}
    for at, rows in records.rows.items():
        if items[at].origin != "site-packages":
            continue
        if reading.options.fresh and not any(row[0].endswith(".pyc") for row in rows):
            continue  # nothing has run there that could have written any
        for path, _, _ in rows:
            if not path.endswith(".py"):
                continue
            folder, _, name = f"{items[at].site}/{path}".rpartition("/")
            if folder not in folders:
                folders[folder] = _compiled(folder)
            compiled = name.removesuffix(".py") + tag
            if compiled in folders[folder] and _is_stale(f"{folder}/{name}", f"{folder}/__pycache__/{compiled}"):
                yield StaleBytecode(
                    owner=items[at].name, source=f"{folder}/{name}", bytecode=f"{folder}/__pycache__/{compiled}"
                )


def _compiled(folder: str) -> frozenset[str]:
    try:
        return frozenset(os.listdir(f"{folder}/__pycache__"))  # noqa: PTH208 - names only, and fast
    except OSError:
        return frozenset()


def _is_stale(source: str, bytecode: str) -> bool:
    try:
        descriptor = os.open(bytecode, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            header = os.read(descriptor, _HEADER)
        finally:
            os.close(descriptor)
        if len(header) < _HEADER or int.from_bytes(header[4:8], "little") != _UNCHECKED:
            return False
        # importlib.util.source_hash with the magic number of the Python that wrote it.
        found = _imp.source_hash(int.from_bytes(header[:4], "little"), read_regular(source, _MAXIMUM_SOURCE))
    except OSError:
        return False
    return found != header[8:_HEADER]
