"""Whether a file of a cache is whole, told from the file alone.

The file name of a graph is the hash of its content (FxGraphCache._write_to_local_cache, sha256_hash), and so is that of
a Python wrapper (code_hash, "c" before it). Shared objects and cubins are ELF files whose header says how long they
must be. Everything else that a compiler writes atomically can still be empty after a crash or a full disk.
"""

import ast
import base64
import hashlib
import json
import struct
from pathlib import Path

from envdoctor.cache.layout import CacheFile

_ELF_MAGIC = b"\x7fELF"
_HASHED = ("fx graph", "autograd graph")
# Files of Triton's and inductor's caches that may be empty by design.
_MAY_BE_EMPTY = (".lock", "__init__.py")


def damage(folder: Path, file: CacheFile) -> str:
    """Return what is wrong with the file, or an empty string. A file that has vanished is not damaged."""
    path = folder / file.path
    name = path.name
    try:
        if path.stat().st_size == 0:
            return "" if name.endswith(_MAY_BE_EMPTY) else "empty"
        if file.kind in _HASHED:
            return _hash_differs(path)
        return _by_suffix(path)
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def content_name(content: bytes) -> str:
    """Return the name torch gives a content: sha256 in base 32 without its constant tail (sha256_hash)."""
    return base64.b32encode(hashlib.sha256(content).digest())[:51].decode().lower()


def _hash_differs(path: Path) -> str:
    return "" if content_name(path.read_bytes()) == path.name else "its content is not what its name says"


def _by_suffix(path: Path) -> str:
    suffix = path.suffix
    if suffix in (".json", ".best_config"):
        return _not_json(path)
    if suffix == ".py":
        return _not_python(path)
    if suffix in (".so", ".cubin", ".o"):
        return _short_elf(path)
    return ""


def _not_json(path: Path) -> str:
    try:
        json.loads(path.read_bytes())
    except ValueError as error:
        return f"no JSON document: {error}"
    return ""


def _not_python(path: Path) -> str:
    source = path.read_bytes()
    # The common case costs one hash; only a name that says nothing needs the parser.
    if path.stem == "c" + content_name(source.strip()):
        return ""
    try:
        ast.parse(source)
    except (SyntaxError, ValueError) as error:
        return f"no Python module: {error}"
    return ""


def _short_elf(path: Path) -> str:
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(64)
    if head[:4] != _ELF_MAGIC:
        return "no ELF file"
    if len(head) < 64 or head[4] != 2:
        return "its ELF header is cut off" if len(head) < 64 else ""
    # Linkers write the section headers last; ptxas writes the program headers of a cubin behind even those.
    programs, sections = struct.unpack_from("<QQ", head, 32)
    program_size, program_count, section_size, section_count = struct.unpack_from("<4H", head, 54)
    needed = max(programs + program_size * program_count, sections + section_size * section_count)
    return f"cut off: {size} of at least {needed} bytes" if size < needed else ""
