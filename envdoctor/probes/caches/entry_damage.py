"""Whether a file of a cache is whole, told from the file alone.

The file name of a graph is the hash of its content (FxGraphCache._write_to_local_cache, sha256_hash), and so is that of
a Python wrapper (code_hash, "c" before it). Shared objects and cubins are ELF files whose header says how long they
must be. Everything else that a compiler writes atomically can still be empty after a crash or a full disk.
"""

import struct
from pathlib import Path

from envdoctor.catalog.cache_kinds import GRAPHS
from envdoctor.facts.regular_file import open_regular, read_prefix, read_regular
from envdoctor.standards.bounded_json import loads

_ELF_MAGIC = b"\x7fELF"
# A graph bundles its kernels and constants, some 100 MB at most; sources and groups are small. What is larger is no
# work of a compiler's, and is not read.
_MAXIMUM_GRAPH = 4 << 30
_MAXIMUM_TEXT, _MAXIMUM_VALUES = 64 << 20, 500_000
# A parsed source takes 500 times its size. A larger one whose name is not the hash of it is not judged.
_MAXIMUM_PARSED = 512 << 10
_CHUNK = 1 << 20
# Files of the caches that may be empty by design; FlashInfer makes its log before it has something to say.
_MAY_BE_EMPTY = (".lock", ".log", "__init__.py")


def damage(path: Path, kind: str) -> str:
    """Return what is wrong with the file of an entry of that kind, or an empty string; nothing if it has vanished.

    At most 64 MB are held in memory.
    """
    try:
        status = path.stat()
        if status.st_size == 0:
            return "" if path.name.endswith(_MAY_BE_EMPTY) else "empty"
        return _hash_differs(path, status.st_size) if kind in GRAPHS else _by_suffix(path)
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def may_be_empty(name: str) -> bool:
    """Tell whether a file of that name is empty by design."""
    return name.endswith(_MAY_BE_EMPTY)


def content_name(content: bytes) -> str:
    """Return the name torch gives a content: sha256 in base 32 without its constant tail (sha256_hash)."""
    import hashlib  # noqa: PLC0415 - it loads OpenSSL, and few checks hash anything

    return _named(hashlib.sha256(content).digest())


def _named(digest: bytes) -> str:
    import base64  # noqa: PLC0415 - few caches are looked at so closely

    return base64.b32encode(digest)[:51].decode().lower()


def _hash_differs(path: Path, size: int) -> str:
    if size > _MAXIMUM_GRAPH:
        return f"{size} bytes, more than a graph can have"
    import hashlib  # noqa: PLC0415 - it loads OpenSSL, and few checks hash anything

    digest = hashlib.sha256()
    with open_regular(path) as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return "" if _named(digest.digest()) == path.name else "its content is not what its name says"


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
        loads(read_regular(path, _MAXIMUM_TEXT), _MAXIMUM_VALUES)
    except ValueError as error:
        return f"no JSON document: {error}"
    except RecursionError:
        return "no JSON document: nested too deeply"
    return ""


def _not_python(path: Path) -> str:
    source = read_regular(path, _MAXIMUM_TEXT)
    # The common case costs one hash; only a name that says nothing needs the parser.
    if path.stem == "c" + content_name(source.strip()):
        return ""
    if len(source) > _MAXIMUM_PARSED:
        return ""
    try:
        import ast  # noqa: PLC0415 - few entries are Python

        ast.parse(source)
    except (SyntaxError, ValueError) as error:
        return f"no Python module: {error}"
    except (RecursionError, MemoryError):
        return "no Python module: nested too deeply"
    return ""


def _short_elf(path: Path) -> str:
    size = path.stat().st_size
    head = read_prefix(path, 64)
    if head[:4] != _ELF_MAGIC:
        return "no ELF file"
    if len(head) < 64 or head[4] != 2:
        return "its ELF header is cut off" if len(head) < 64 else ""
    # Linkers write the section headers last; ptxas writes the program headers of a cubin behind even those.
    programs, sections = struct.unpack_from("<QQ", head, 32)
    program_size, program_count, section_size, section_count = struct.unpack_from("<4H", head, 54)
    needed = max(programs + program_size * program_count, sections + section_size * section_count)
    return f"cut off: {size} of at least {needed} bytes" if size < needed else ""
