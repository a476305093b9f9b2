"""Bytecode that Python runs: without a source, of another source than the one that is there, or damaged."""

import re

from envdoctor.facts.regular_file import read_prefix
from envdoctor.model.frozen import frozen

BYTECODE_HEADER = 16
MAGIC = {"3.8": 3413, "3.9": 3425, "3.10": 3439, "3.11": 3495, "3.12": 3531, "3.13": 3571, "3.14": 3627}
"""Version -> the number that its bytecode begins with (CPython, Include/internal/pycore_magic_number.h)."""
_CODE = frozenset({ord("c"), ord("c") | 0x80})
"""What the marshalled code of a module begins with, after the header (CPython, Python/marshal.c)."""
_READS_SOURCE = tuple(
    bytes([len(name)]) + name for name in (b"triton", b"triton.language", b"torch.jit", b"getsource", b"getsourcelines")
)
"""Names as marshalled, length first, of what cannot do without the source: triton.jit and torch.jit read it."""
_OF_SOURCE = re.compile(r"/(?:site|dist)-packages/(?:torch|triton)/")
_MAXIMUM_BYTECODE = 4 * 1024 * 1024


@frozen
class StaleBytecode:
    """One such file."""

    owner: str
    source: str
    """Absolute."""
    bytecode: str
    """Absolute."""
    option: str = ""
    """Python's option, "-O" or "-OO", without which this environment does not use it."""


@frozen
class DamagedBytecode:
    """A file that Python would run, and at which the import fails."""

    owner: str
    bytecode: str
    """Absolute."""
    reason: str
    """As Python says it ("EOFError: marshal data too short")."""
    sourceless: bool
    """There is no source from which Python could make it again."""
    option: str = ""
    """As of `StaleBytecode`."""


@frozen
class BytecodeState:
    """What was looked at, and what of it cannot be used."""

    whole: int = 0
    """Files that Python would use, of this interpreter's kind, that can be unmarshalled."""
    unread: int = 0
    """Files that Python would use and that were not unmarshalled."""
    reason: str = ""
    """Why not."""
    stale: tuple[StaleBytecode, ...] = ()
    damaged: tuple[DamagedBytecode, ...] = ()


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
    begins = data[BYTECODE_HEADER : BYTECODE_HEADER + 1]
    if MAGIC.get(minor) != int.from_bytes(data[:2], "little") or not begins or begins[0] not in _CODE:
        return False
    return not any(name in data for name in _READS_SOURCE)
