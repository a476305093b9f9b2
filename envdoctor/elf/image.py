"""An open ELF file: its headers, positioned reads that never leave it, and the walk over its dynamic section.

The layout is the System V gABI's ("Object Files", "Program Loading and Dynamic Linking"). Anything the file claims is
checked against the file's size before it is used.
"""

import functools
import os
import stat
import struct
from collections.abc import Iterator
from typing import NamedTuple, NoReturn

from envdoctor.errors import ElfError

PT_LOAD, PT_DYNAMIC, PT_INTERP = 1, 2, 3
DT_NULL = 0
MAX_DYNAMIC = 1 << 20  # the largest seen in a real wheel is 1.5 KiB
MAX_STRING = 1 << 16


class Image:
    """Positioned reads of one open file, and the map from virtual addresses to file offsets."""

    __slots__ = ("endian", "fd", "path", "segments", "size")

    def __init__(self, path: str, fd: int, size: int) -> None:
        """Keep the descriptor; the caller closes it."""
        self.path = path
        self.fd = fd
        self.size = size
        self.endian = "<"
        self.segments: list[tuple[int, int, int]] = []

    def refuse(self, reason: str) -> NoReturn:
        """Raise ElfError in ld.so's own form, `PATH: reason`."""
        raise ElfError(f"{self.path}: {reason}")

    def read(self, offset: int, length: int) -> bytes:
        """Return exactly that many bytes; raise ElfError where the file ends before."""
        if length < 0 or offset < 0 or offset + length > self.size:
            self.refuse(f"{length} bytes at offset {offset:#x} are outside the file's {self.size} bytes")
        data = os.pread(self.fd, length, offset)
        if len(data) != length:
            self.refuse("the file became shorter while it was read")
        return data

    def peek(self, offset: int, length: int) -> bytes:
        """Return up to that many bytes; fewer, or none, where the file ends."""
        return os.pread(self.fd, length, offset) if 0 <= offset < self.size else b""

    def offset(self, address: int) -> int:
        """Translate a virtual address into a file offset; raise ElfError when no PT_LOAD holds it in the file."""
        for start, length, file_offset in self.segments:
            if start <= address < start + length:
                return address - start + file_offset
        return self.refuse(f"address {address:#x} is in no loaded segment")

    def string(self, offset: int) -> str:
        """Return the NUL-terminated string at a file offset."""
        length = 256
        while True:
            data = self.peek(offset, length)
            end = data.find(b"\0")
            if end >= 0:
                return data[:end].decode("utf-8", "surrogateescape")
            if len(data) < length or length >= MAX_STRING:
                self.refuse(f"the string at offset {offset:#x} has no end")
            length *= 16


class ElfHeaders(NamedTuple):
    """What the ELF and program headers say."""

    bits: int
    machine: int
    kind: int
    program_headers: tuple[tuple[int, int, int, int, int], ...]
    """(p_type, p_offset, p_vaddr, p_filesz, p_memsz)."""
    section_table: tuple[int, int, int]
    """Offset, size of an entry, number of entries; what runs does not need it, and it may be absent or wrong."""


@functools.cache
def layout(text: str) -> struct.Struct:
    """Return the compiled layout; the first character of the text is the byte order."""
    return struct.Struct(text)


def open_regular(path: str) -> int:
    """Open a regular file for reading, and nothing else: a FIFO or a device is refused before it is opened."""
    try:
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode):
            directory = stat.S_ISDIR(mode)
            raise ElfError(f"{path}: {'cannot read file data: Is a directory' if directory else 'not a regular file'}")
        # O_NONBLOCK: should the file be swapped for a FIFO after the stat, the open must not wait for a writer.
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError) as error:  # ValueError: a NUL byte in the path
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ElfError(f"{path}: cannot open shared object file: {reason}") from error


def read_header(image: Image) -> ElfHeaders:
    """Read the ELF and program headers and set up the image's endianness and segments."""
    if image.size < 52:
        image.refuse("file too short")
    start = os.pread(image.fd, min(4096, image.size), 0)
    if start[:4] != b"\x7fELF" or start[4] not in {1, 2} or start[5] not in {1, 2} or start[6] != 1:
        image.refuse("invalid ELF header")
    wide = start[4] == 2
    image.endian = "<" if start[5] == 1 else ">"
    fields = layout(image.endian + ("HHIQQQIHHHHH" if wide else "HHIIIIIHHHHH"))
    if len(start) < 16 + fields.size:
        image.refuse("file too short")
    kind, machine, _, _, table, sections, _, _, entry_size, count, *rest = fields.unpack_from(start, 16)
    entry = layout(image.endian + ("IIQQQQQQ" if wide else "IIIIIIII"))
    if count and entry_size != entry.size:
        image.refuse("ELF file's phentsize not the expected size")
    end = table + count * entry.size
    data = start[table:end] if end <= len(start) else image.read(table, count * entry.size)
    headers = tuple(_program_header(fields, wide=wide) for fields in entry.iter_unpack(data))
    image.segments = [(vaddr, filesz, offset) for kind_, offset, vaddr, filesz, _ in headers if kind_ == PT_LOAD]
    return ElfHeaders(64 if wide else 32, machine, kind, headers, (sections, *rest))


def sections(image: Image, header: ElfHeaders) -> Iterator[tuple[int, int, int]]:
    """Yield (sh_type, sh_offset, sh_size) of every section; nothing when the table is absent or outside the file."""
    offset, entry_size, count = header.section_table
    entry = layout(image.endian + ("IIQQQQIIQQ" if header.bits == 64 else "IIIIIIIIII"))
    if entry_size != entry.size or not count or offset + count * entry.size > image.size:
        return
    for fields in entry.iter_unpack(image.read(offset, count * entry.size)):
        yield fields[1], fields[4], fields[5]


def _program_header(fields: tuple[int, ...], *, wide: bool) -> tuple[int, int, int, int, int]:
    if wide:
        kind, _, offset, vaddr, _, filesz, memsz, _ = fields
    else:
        kind, offset, vaddr, _, filesz, memsz, _, _ = fields
    return kind, offset, vaddr, filesz, memsz


def dynamic_entries(image: Image, header: ElfHeaders) -> Iterator[tuple[int, int]]:
    """Yield (tag, value) of the dynamic section up to DT_NULL."""
    for kind, offset, _, filesz, _ in header.program_headers:
        if kind != PT_DYNAMIC:
            continue
        entry = layout(image.endian + ("QQ" if header.bits == 64 else "II"))
        if filesz > MAX_DYNAMIC:
            image.refuse(f"a dynamic section of {filesz} bytes is not plausible")
        for tag, value in entry.iter_unpack(image.read(offset, filesz - filesz % entry.size)):
            if tag == DT_NULL:
                return
            yield tag, value
        return
