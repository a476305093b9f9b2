"""Reads the dynamic section of one ELF file: what it is called, what it needs and where it wants that looked for.

Only the headers, the dynamic section and the strings it points at are read, with `pread`: a 1 GB library costs the same
as a small one. The layout is the System V gABI's ("Program Loading and Dynamic Linking") plus the GNU version sections
of the LSB. Anything the file claims is checked against the file's size before it is used.
"""

import functools
import os
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from envdoctor.errors import ElfError

PT_LOAD, PT_DYNAMIC, PT_INTERP = 1, 2, 3
DT_NULL, DT_NEEDED, DT_STRTAB, DT_STRSZ, DT_SONAME, DT_RPATH, DT_RUNPATH, DT_FLAGS = 0, 1, 5, 10, 14, 15, 29, 30
DT_VERDEF, DT_VERNEED, DT_FLAGS_1 = 0x6FFFFFFC, 0x6FFFFFFE, 0x6FFFFFFB
DF_1_NODEFLIB, DF_1_PIE = 0x800, 0x8000000
EM_386, EM_X86_64, EM_AARCH64 = 3, 62, 183
ET_EXEC, ET_DYN = 2, 3

MAX_DYNAMIC = 1 << 20  # the largest seen in a real wheel is 1.5 KiB
MAX_STRING = 1 << 16
MAX_VERSIONS = 1 << 16
_VERNEED = "HHIII"  # vn_version, vn_cnt, vn_file, vn_aux, vn_next
_VERNAUX = "IHHII"  # vna_hash, vna_flags, vna_other, vna_name, vna_next
_VERDEF = "HHHHIII"  # vd_version, vd_flags, vd_ndx, vd_cnt, vd_hash, vd_aux, vd_next
_VERDAUX = "II"  # vda_name, vda_next
VER_FLG_WEAK = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionNeed:
    """One version name an object asks of a file it needs, for example GLIBC_2.34 of libc.so.6."""

    file: str
    name: str
    index: int
    """The number DT_VERSYM uses for this version in the object."""
    weak: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ElfObject:
    """The dynamic facts of one ELF file.

    `rpath` and `runpath` are None when the tag is absent and () when it is there but empty: an empty DT_RUNPATH names
    no directory and still switches DT_RPATH off. An empty element inside one means the current directory.
    """

    path: str
    identity: tuple[int, int]
    """Device and inode: ld.so takes two paths with one identity for one object."""
    size: int
    bits: int
    """32 or 64."""
    little_endian: bool
    machine: int
    """e_machine, for example EM_X86_64."""
    kind: int
    """e_type: ET_EXEC or ET_DYN for what can be loaded."""
    dynamic: bool
    """False for a static executable or a relocatable file: then everything below is empty."""
    soname: str | None
    needed: tuple[str, ...]
    rpath: tuple[str, ...] | None
    runpath: tuple[str, ...] | None
    flags: int
    flags_1: int
    interpreter: str | None
    needs: tuple[VersionNeed, ...]
    defines: tuple[str, ...] | None
    """Version names of DT_VERDEF in order, the first usually the file's own; None when it defines no versions."""


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
            self.refuse(f"{length} bytes at offset {offset:#x} lie outside the file's {self.size} bytes")
        data = os.pread(self.fd, length, offset)
        if len(data) != length:
            self.refuse("the file became shorter while it was read")
        return data

    def offset(self, address: int) -> int:
        """Translate a virtual address into a file offset; raise ElfError when no PT_LOAD holds it in the file."""
        for start, length, file_offset in self.segments:
            if start <= address < start + length:
                return address - start + file_offset
        return self.refuse(f"address {address:#x} lies in no loaded segment")

    def string(self, offset: int) -> str:
        """Return the NUL-terminated string at a file offset."""
        length = 256
        while True:
            data = os.pread(self.fd, length, offset)
            end = data.find(b"\0")
            if end >= 0:
                return data[:end].decode("utf-8", "surrogateescape")
            if len(data) < length or length >= MAX_STRING:
                self.refuse(f"the string at offset {offset:#x} has no end")
            length *= 16


@dataclass(frozen=True, slots=True)
class _Header:
    bits: int
    machine: int
    kind: int
    program_headers: tuple[tuple[int, int, int, int, int], ...]
    """(p_type, p_offset, p_vaddr, p_filesz, p_memsz)."""


def read(path: str) -> ElfObject:
    """Read one file; raise ElfError with the reason when it is no regular file or no well-formed ELF object."""
    fd = open_regular(path)
    try:
        status = os.fstat(fd)
        image = Image(path, fd, status.st_size)
        return _parse(image, (status.st_dev, status.st_ino))
    except OSError as error:
        raise ElfError(f"{path}: cannot read file data: {error.strerror}") from error
    finally:
        os.close(fd)


@functools.cache
def _layout(text: str) -> struct.Struct:
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


def read_header(image: Image) -> _Header:
    """Read the ELF and program headers and set up the image's endianness and segments."""
    if image.size < 52:
        image.refuse("file too short")
    start = os.pread(image.fd, min(4096, image.size), 0)
    if start[:4] != b"\x7fELF" or start[4] not in {1, 2} or start[5] not in {1, 2} or start[6] != 1:
        image.refuse("invalid ELF header")
    wide = start[4] == 2
    image.endian = "<" if start[5] == 1 else ">"
    layout = _layout(image.endian + ("HHIQQQIHHH" if wide else "HHIIIIIHHH"))
    if len(start) < 16 + layout.size:
        image.refuse("file too short")
    kind, machine, _, _, table, _, _, _, entry_size, count = layout.unpack_from(start, 16)
    entry = _layout(image.endian + ("IIQQQQQQ" if wide else "IIIIIIII"))
    if count and entry_size != entry.size:
        image.refuse("ELF file's phentsize not the expected size")
    end = table + count * entry.size
    data = start[table:end] if end <= len(start) else image.read(table, count * entry.size)
    headers = tuple(_program_header(fields, wide=wide) for fields in entry.iter_unpack(data))
    image.segments = [(vaddr, filesz, offset) for kind_, offset, vaddr, filesz, _ in headers if kind_ == PT_LOAD]
    return _Header(64 if wide else 32, machine, kind, headers)


def _program_header(fields: tuple[int, ...], *, wide: bool) -> tuple[int, int, int, int, int]:
    if wide:
        kind, _, offset, vaddr, _, filesz, memsz, _ = fields
    else:
        kind, offset, vaddr, _, filesz, memsz, _, _ = fields
    return kind, offset, vaddr, filesz, memsz


def dynamic_entries(image: Image, header: _Header) -> Iterator[tuple[int, int]]:
    """Yield (tag, value) of the dynamic section up to DT_NULL."""
    for kind, offset, _, filesz, _ in header.program_headers:
        if kind != PT_DYNAMIC:
            continue
        entry = _layout(image.endian + ("QQ" if header.bits == 64 else "II"))
        if filesz > MAX_DYNAMIC:
            image.refuse(f"a dynamic section of {filesz} bytes is not plausible")
        for tag, value in entry.iter_unpack(image.read(offset, filesz - filesz % entry.size)):
            if tag == DT_NULL:
                return
            yield tag, value
        return


def _parse(image: Image, identity: tuple[int, int]) -> ElfObject:
    header = read_header(image)
    interpreter = next(
        (image.string(offset) for kind, offset, *_ in header.program_headers if kind == PT_INTERP),
        None,
    )
    single: dict[int, int] = {}
    needed: list[int] = []
    for tag, value in dynamic_entries(image, header):
        if tag == DT_NEEDED:
            needed.append(value)
        else:
            single[tag] = value
    strings = _Strings(image, single) if single or needed else None

    def text(tag: int) -> str | None:
        return strings.at(single[tag]) if strings and tag in single else None

    return ElfObject(
        path=image.path,
        identity=identity,
        size=image.size,
        bits=header.bits,
        little_endian=image.endian == "<",
        machine=header.machine,
        kind=header.kind,
        dynamic=strings is not None,
        soname=text(DT_SONAME),
        needed=tuple(strings.at(offset) for offset in needed) if strings else (),
        rpath=_elements(text(DT_RPATH)),
        runpath=_elements(text(DT_RUNPATH)),
        flags=single.get(DT_FLAGS, 0),
        flags_1=single.get(DT_FLAGS_1, 0),
        interpreter=interpreter,
        needs=tuple(_version_needs(image, single[DT_VERNEED], strings)) if strings and DT_VERNEED in single else (),
        defines=tuple(name for name, _ in version_definitions(image, single[DT_VERDEF], strings))
        if strings and DT_VERDEF in single
        else None,
    )


def _elements(value: str | None) -> tuple[str, ...] | None:
    if value is None:
        return None
    return tuple(value.split(":")) if value else ()


class _Strings:
    """The string table, read through one window: the strings a dynamic section names lie close together."""

    __slots__ = ("base", "image", "size", "start", "window")

    def __init__(self, image: Image, single: dict[int, int]) -> None:
        if DT_STRTAB not in single:
            image.refuse("the dynamic section names no string table")
        self.image = image
        self.base = image.offset(single[DT_STRTAB])
        self.size = single.get(DT_STRSZ, 0)
        self.start = 0
        self.window = b""

    def at(self, offset: int) -> str:
        if offset >= self.size:
            self.image.refuse(f"string {offset:#x} lies outside the string table of {self.size} bytes")
        if not self.start <= offset < self.start + len(self.window):
            self.start = max(0, offset - 1024)
            self.window = os.pread(self.image.fd, 8192, self.base + self.start)
        end = self.window.find(b"\0", offset - self.start)
        if end >= 0:
            return self.window[offset - self.start : end].decode("utf-8", "surrogateescape")
        return self.image.string(self.base + offset)


class _Records:
    """A chain of version records, linked by forward offsets, read through a window that grows on demand."""

    __slots__ = ("base", "data", "image", "left")

    def __init__(self, image: Image, address: int) -> None:
        self.image = image
        self.base = image.offset(address)
        self.data = b""
        self.left = MAX_VERSIONS

    def unpack(self, layout: str, position: int) -> tuple[int, ...]:
        record = _layout(self.image.endian + layout)
        end = position + record.size
        self.left -= 1
        if self.left < 0 or end > MAX_DYNAMIC:
            self.image.refuse("its version records are not plausible")
        if end > len(self.data):
            length = min(max(4096, 4 * end), self.image.size - self.base)
            self.data = self.image.read(self.base, length)
            if end > length:
                self.image.refuse("its version records run past the end of the file")
        return record.unpack_from(self.data, position)


def _version_needs(image: Image, address: int, strings: _Strings) -> Iterator[VersionNeed]:
    records = _Records(image, address)
    position = 0
    while True:
        _, count, file, first, following = records.unpack(_VERNEED, position)
        name = strings.at(file)
        auxiliary = position + first
        for _ in range(count):
            _, flags, index, version, next_auxiliary = records.unpack(_VERNAUX, auxiliary)
            # The top bit of the index marks a hidden version; what DT_VERSYM compares is the rest.
            yield VersionNeed(
                file=name, name=strings.at(version), index=index & 0x7FFF, weak=bool(flags & VER_FLG_WEAK)
            )
            if not next_auxiliary:
                break
            auxiliary += next_auxiliary
        if not following:
            return
        position += following


def version_definitions(image: Image, address: int, strings: _Strings) -> Iterator[tuple[str, int]]:
    """Yield (name, index in DT_VERSYM) of every version the object defines, its own base entry (index 1) included."""
    records = _Records(image, address)
    position = 0
    while True:
        _, _, index, count, _, first, following = records.unpack(_VERDEF, position)
        if count:
            name, _ = records.unpack(_VERDAUX, position + first)
            yield strings.at(name), index & 0x7FFF
        if not following:
            return
        position += following
