"""The dynamic symbols of one object: what it asks of others, and what it offers, decided as ld.so decides it.

The tables are read with `pread`, not mapped: a file that another process shortens would end a reader that had mapped it
with SIGBUS.
"""

import os
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from envdoctor.elf.image import ElfHeaders, Image, dynamic_entries, layout, open_regular, read_header, sections
from envdoctor.elf.reader import DT_STRSZ, DT_STRTAB, DT_VERDEF, DT_VERNEED
from envdoctor.elf.strings import StringTable
from envdoctor.elf.symbol_hash import GnuHash, SysvHash, read_table, read_words
from envdoctor.elf.versions import VersionNeed, version_definitions, version_needs
from envdoctor.errors import ElfError
from envdoctor.model.frozen import frozen

DT_HASH, DT_SYMTAB, DT_GNU_HASH, DT_VERSYM = 4, 6, 0x6FFFFEF5, 0x6FFFFFF0
DT_RELA, DT_RELASZ, DT_JMPREL, DT_PLTRELSZ = 7, 8, 23, 2
SHT_DYNSYM = 11
SHN_UNDEF, SHN_ABS = 0, 0xFFF1
BINDINGS = frozenset({1, 2, 10})  # STB_GLOBAL, STB_WEAK, STB_GNU_UNIQUE: what a lookup accepts
STB_WEAK = 2
TYPES = frozenset({0, 1, 2, 5, 6, 10})  # NOTYPE, OBJECT, FUNC, COMMON, TLS, GNU_IFUNC
STT_TLS = 6
HIDDEN = frozenset({1, 2})  # STV_INTERNAL, STV_HIDDEN
VERSYM_HIDDEN = 0x8000
WIDE_ROW = 24
"""Bytes of a symbol in a 64-bit object."""
FIRST_OWN_VERSION = 2
"""Indices 0 and 1 in DT_VERSYM mean "no version"."""

Row = tuple[int, int, int, int, int]
"""st_name, st_info, st_other, st_shndx, st_value."""


class UndefinedSymbol(NamedTuple):
    """A symbol an object expects from others. A plain tuple: a stack has over 100,000."""

    name: str
    version: str | None
    """The version it asks for; None when any default one will do."""
    file: str | None
    """The needed file that version was taken from when the object was linked."""
    weak: bool
    """A weak one may stay undefined."""
    row: int
    """Its place in the object's symbol table."""


@frozen
class ExportedSymbol:
    """A symbol an object offers."""

    name: str
    version: str | None
    default: bool
    """False for an old version that only those who name it get."""


class SymbolTable:
    """The symbols of one object. Holds its tables in memory (8 MB for libtorch_cpu.so), no string table over 16 MB."""

    __slots__ = ("_data", "_definitions", "_hash", "_layout", "_needs", "_strings", "_versions", "count", "path")

    def __init__(self, path: str) -> None:
        """Read the tables; raise ElfError when the file is not a dynamic object or contradicts itself."""
        self.path = path
        descriptor = open_regular(path)
        try:
            self._read(Image(path, descriptor, os.fstat(descriptor).st_size))
        except OSError as error:
            raise ElfError(f"{path}: cannot read file data: {error.strerror}") from error
        finally:
            os.close(descriptor)

    def undefined(self) -> Iterator[UndefinedSymbol]:
        """Yield what the object asks of others, in the order of its symbol table."""
        # A GNU hash table covers the tail of the symbol table, and only what is defined stands there.
        hashed = self._hash.offset if isinstance(self._hash, GnuHash) and self._hash.chains else self.count
        name_at, name_of = self._strings.name, {number: (need.name, need.file) for number, need in self._needs.items()}
        versions, nothing = self._versions, (None, None)
        rows = memoryview(self._data)[: min(hashed, self.count) * self._layout.size]
        wide = self._layout.size == WIDE_ROW
        for index, fields in enumerate(self._layout.iter_unpack(rows)):
            name, info, other, section = fields[:4] if wide else (fields[0], *fields[3:])
            # Row 0 is nobody's.
            if section != SHN_UNDEF or info >> 4 not in BINDINGS or other & 3 in HIDDEN or not name or not index:
                continue
            version, file = name_of.get(versions[index] & ~VERSYM_HIDDEN, nothing) if versions else nothing
            text = name_at(name).decode("utf-8", "surrogateescape")
            yield UndefinedSymbol(text, version, file, info >> 4 == STB_WEAK, index)

    @property
    def versioned(self) -> bool:
        """Whether the object has a table of versions, its own or those it asks of others (DT_VERSYM)."""
        return self._versions is not None

    def exported(self) -> Iterator[ExportedSymbol]:
        """Yield what the object offers, in the order of its symbol table."""
        for index in range(1, self.count):
            row = self._row(index)
            if _is_definition(row):
                mark = self._versions[index] if self._versions else 1
                yield ExportedSymbol(
                    name=self._text(row[0]),
                    version=self._definitions.get(mark & ~VERSYM_HIDDEN),
                    default=not mark & VERSYM_HIDDEN,
                )

    def defines(self, name: str, version: str | None = None) -> bool:
        """Tell whether a lookup of `name` ends in this object, taking versions as glibc's `check_match` does.

        An object without versions satisfies any. A request without one takes the only default version there is.
        """
        raw = name.encode("utf-8", "surrogateescape")
        defaults = 0
        for index in self._hash.candidates(raw) if self._hash else range(1, self.count):
            if index >= self.count or not self._is_named(index, raw):
                continue
            answer = self._accepts(index, version)
            if answer is True:
                return True
            defaults += answer is None
        return defaults == 1

    def _accepts(self, index: int, version: str | None) -> bool | None:
        """Whether a definition of the right name has the right version; None for a default one when none is asked."""
        if not self._versions:
            return True
        hidden = bool(self._versions[index] & VERSYM_HIDDEN)
        number = self._versions[index] & ~VERSYM_HIDDEN
        own = self._definitions.get(number)
        if version is not None:
            return own == version or (own is None and not hidden)
        if number <= FIRST_OWN_VERSION:
            return True
        return False if hidden else None

    def _is_named(self, index: int, raw: bytes) -> bool:
        row = self._row(index)
        return self._strings.piece(row[0], len(raw) + 1) == raw + b"\0" and _is_definition(row)

    def _row(self, index: int) -> Row:
        fields = self._layout.unpack_from(self._data, index * self._layout.size)
        if self._layout.size == WIDE_ROW:
            name, info, other, section, value, _ = fields
        else:
            name, value, _, info, other, section = fields
        return name, info, other, section, value

    def _text(self, offset: int) -> str:
        return self._strings.name(offset).decode("utf-8", "surrogateescape")

    def _read(self, image: Image) -> None:
        header = read_header(image)
        tags = dict(dynamic_entries(image, header))
        if not {DT_SYMTAB, DT_STRTAB, DT_STRSZ} <= tags.keys():
            image.refuse("object file has no dynamic symbol table")
        wide = header.bits == 64
        self._layout = layout(image.endian + ("IBBHQQ" if wide else "IIIBBH"))
        self._strings = StringTable(image, image.offset(tags[DT_STRTAB]), tags[DT_STRSZ])
        self._hash: GnuHash | SysvHash | None = None
        if DT_GNU_HASH in tags:
            self._hash = GnuHash(image, tags[DT_GNU_HASH], wide=wide)
        elif DT_HASH in tags:
            self._hash = SysvHash(image, tags[DT_HASH])
        start = image.offset(tags[DT_SYMTAB])
        self.count = _count(image, header, start, self._layout.size, self._hash)
        self._data = read_table(image, start, self.count * self._layout.size)
        self._versions = None
        if DT_VERSYM in tags:
            self._versions = read_words(image, image.offset(tags[DT_VERSYM]), self.count, "H")
        self._needs: dict[int, VersionNeed] = {}
        if DT_VERNEED in tags:
            self._needs = {need.index: need for need in version_needs(image, tags[DT_VERNEED], self._text)}
        self._definitions: dict[int, str] = {}
        if DT_VERDEF in tags:
            defined = version_definitions(image, tags[DT_VERDEF], self._text)
            self._definitions = {index: name for name, index in defined if index >= FIRST_OWN_VERSION}


def _is_definition(row: Row) -> bool:
    """Whether a lookup may end at this row: glibc passes over local, hidden, valueless and section symbols."""
    _, info, other, section, value = row
    kind = info & 15
    if section == SHN_UNDEF or info >> 4 not in BINDINGS or kind not in TYPES or other & 3 in HIDDEN:
        return False
    return bool(value) or section == SHN_ABS or kind == STT_TLS


def _count(image: Image, header: ElfHeaders, start: int, size: int, table: GnuHash | SysvHash | None) -> int:
    """How many rows the symbol table has. No dynamic tag says so: the section header or a hash table does."""
    if isinstance(table, SysvHash):
        return int(table.count)
    from_sections: int = next(
        (length // size for kind, offset, length in sections(image, header) if kind == SHT_DYNSYM and offset == start),
        0,
    )
    return max(from_sections, table.count if table else 0)


def first_relocated(path: str, indices: Iterable[int]) -> int | None:
    """Return which of the symbols, given by index, the object's relocations come to first: ld.so names that one."""
    wanted = frozenset(indices)
    descriptor = open_regular(path)
    try:
        image = Image(path, descriptor, os.fstat(descriptor).st_size)
        header = read_header(image)
        tags = dict(dynamic_entries(image, header))
        entry = layout(image.endian + ("QQq" if header.bits == 64 else "IIi"))
        shift = 32 if header.bits == 64 else 8
        for table, size in ((DT_RELA, DT_RELASZ), (DT_JMPREL, DT_PLTRELSZ)):
            if table in tags and size in tags:
                length = tags[size] - tags[size] % entry.size
                rows = entry.iter_unpack(read_table(image, image.offset(tags[table]), length))
                symbols: Iterator[int] = (info >> shift for _, info, _ in rows)
                found = next((symbol for symbol in symbols if symbol in wanted), None)
                if found is not None:
                    return found
    finally:
        os.close(descriptor)
    return None
