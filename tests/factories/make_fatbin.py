"""Real shared objects with a .nv_fatbin section, as nvcc lays it out; the payloads are nothing a GPU could run."""

import struct
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.factories.make_elf import make_shared

PTX, SM = 1, 2
Entry = tuple[int, int]
"""Kind and architecture."""


def entry(kind: int, architecture: int, payload: bytes = b"payload.", header: int = 64) -> bytes:
    """Return one entry: its header, longer for newer architectures, and its payload."""
    fields = struct.pack("<HHIQ12xI", kind, 0x101, header, len(payload), architecture)
    return fields.ljust(header, b"\0") + payload


def binary(entries: Iterable[Entry]) -> bytes:
    """Return one fat binary."""
    body = b"".join(entry(kind, number, header=64 if number < 100 else 96) for kind, number in entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def make_fat(path: Path, binaries: Sequence[Iterable[Entry]]) -> Path:
    """Link an object whose section holds those fat binaries."""
    return make_with_section(path, b"".join(binary(entries) for entries in binaries))


def make_with_section(path: Path, content: bytes) -> Path:
    """Link an object whose .nv_fatbin holds that."""
    path.parent.mkdir(parents=True, exist_ok=True)
    raw = path.with_suffix(".fatbin")
    raw.write_bytes(content)
    source = f'__asm__(".section .nv_fatbin, \\"a\\", @progbits\\n.align 8\\n.incbin \\"{raw}\\"\\n.text\\n");'
    return make_shared(path, source=source)
