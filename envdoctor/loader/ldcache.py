"""Reads the binary /etc/ld.so.cache: which path the loader takes for a bare name once every search path has failed.

Layouts: glibc sysdeps/generic/dl-cache.h. "glibc-ld.so.cache1.1" is what ldconfig writes since 2.32; before that it
stood behind a "ld.so-1.7.0" table kept for libc5, which is still understood here, alone or as a prefix.
"""

import os
import struct
import sys
from collections.abc import Iterator

from envdoctor.elf.image import open_regular
from envdoctor.elf.reader import EM_386, EM_AARCH64, EM_X86_64
from envdoctor.errors import ElfError
from envdoctor.model.frozen import field, frozen

OLD_MAGIC = b"ld.so-1.7.0"
NEW_MAGIC = b"glibc-ld.so.cache1.1"
EXTENSION_MAGIC = 0xEAA42174
EXTENSION_HWCAPS = 1  # cache_extension_tag_glibc_hwcaps
HWCAP_IS_NAMED = 1 << 62  # the low half is then an index into the table of subdirectory names
MAX_CACHE = 64 << 20
LIBRARY_FLAGS = {(64, EM_X86_64): 0x0303, (64, EM_AARCH64): 0x0A03, (32, EM_386): 0x0003}
"""_DL_CACHE_DEFAULT_ID by ELF class and machine: entries with other flags are for other ABIs."""


@frozen
class CacheEntry:
    """One line of `ldconfig -p`: a name, the file it stands for, and what the host must have for it."""

    soname: str
    path: str
    flags: int
    subdirectory: str | None = None
    """The glibc-hwcaps subdirectory this entry is for, for example "x86-64-v3"; None for the plain entry."""
    legacy_hwcap: int = 0
    """The hardware bits of a pre-2.37 entry; such an entry is never chosen here unless they are 0."""


Row = tuple[int, int, str | None, int]
"""Flags, offset of the path, hardware subdirectory, legacy hardware bits."""


@frozen
class LoaderCache:
    """The rows by name, each name's in the file's order, which is the order the loader meets them in."""

    path: str
    rows: dict[str, tuple[Row, ...]] = field(default_factory=dict, repr=False)
    data: bytes = field(default=b"", repr=False)
    """The file. Paths are decoded when they are asked for: a desktop's cache has thousands, an import asks for ten."""

    def entries(self, soname: str) -> tuple[CacheEntry, ...]:
        """Return what the cache has under a name."""
        return tuple(
            CacheEntry(
                soname=soname,
                path=_text(self.data, offset),
                flags=flags,
                subdirectory=subdirectory,
                legacy_hwcap=legacy,
            )
            for flags, offset, subdirectory, legacy in self.rows.get(soname, ())
        )

    def choose(self, soname: str, *, flags: int, hwcaps: tuple[str, ...]) -> str | None:
        """Return the one path the loader would open, or None. `hwcaps` is best first, without "glibc-hwcaps/"."""
        usable = [entry for entry in self.entries(soname) if entry.flags == flags and not entry.legacy_hwcap]
        named = [entry for entry in usable if entry.subdirectory in hwcaps]
        if named:
            return min(named, key=lambda entry: hwcaps.index(str(entry.subdirectory))).path
        return next((entry.path for entry in usable if entry.subdirectory is None), None)


NO_CACHE = LoaderCache(path="")


def read_cache(path: str) -> LoaderCache:
    """Read a cache file; a missing file is an empty cache, as it is for ld.so. Raise ElfError when it is malformed."""
    if not os.path.lexists(path):
        return LoaderCache(path=path)
    descriptor = open_regular(path)
    try:
        with os.fdopen(descriptor, "rb") as file:
            data = file.read(MAX_CACHE)
    except OSError as error:
        raise ElfError(f"{path}: cannot read the loader cache: {error.strerror}") from error
    return parse_cache(data, path)


def parse_cache(data: bytes, path: str) -> LoaderCache:
    """Parse the bytes of a cache file; raise ElfError when they are in neither format or run past their end."""
    rows: dict[str, list[Row]] = {}
    try:
        for soname, row in _entries(data, path):
            rows.setdefault(soname, []).append(row)
    except struct.error as error:
        raise ElfError(f"{path}: the loader cache is truncated ({error})") from error
    return LoaderCache(path=path, rows={name: tuple(found) for name, found in rows.items()}, data=data)


def _entries(data: bytes, path: str) -> Iterator[tuple[str, Row]]:
    start = 0
    if data.startswith(OLD_MAGIC):
        (count,) = struct.unpack_from("=I", data, 12)
        end = 16 + 12 * count
        start = (end + 7) & ~7
        if data[start : start + len(NEW_MAGIC)] != NEW_MAGIC:
            for flags, key, value in _rows(data, "=iII", 16, count):
                yield _text(data, end + key), (flags, _inside(data, end + value), None, 0)
            return
    if data[start : start + len(NEW_MAGIC)] != NEW_MAGIC:
        raise ElfError(f"{path}: not a loader cache: it starts with {data[:20]!r}", "run `ldconfig` to rebuild it")
    count, _, endian, extensions = struct.unpack_from("=IIB3xI", data, start + 20)
    if endian & 3 not in {0, 2 if sys.byteorder == "little" else 3}:
        raise ElfError(f"{path}: the loader cache was written for the other byte order", "run `ldconfig` to rebuild it")
    # Offsets in the new table count from the new header, except the extension's, which counts from the file's start.
    names = _subdirectories(data, start, extensions)
    for flags, key, value, _, hwcap in _rows(data, "=iIIIQ", start + 48, count):
        named = bool(hwcap & HWCAP_IS_NAMED)
        subdirectory = names.get(hwcap & 0xFFFFFFFF, "?") if named else None
        yield _text(data, start + key), (flags, _inside(data, start + value), subdirectory, 0 if named else hwcap)


def _rows(data: bytes, layout: str, start: int, count: int) -> Iterator[tuple[int, ...]]:
    row = struct.Struct(layout)
    end = start + row.size * count
    if end > len(data):
        raise struct.error(f"{count} entries need {end} bytes, there are {len(data)}")
    return row.iter_unpack(data[start:end])


def _inside(data: bytes, offset: int) -> int:
    """Return the offset of a string that is decoded later; that there is an end to it is checked now."""
    if data.find(b"\0", offset) < 0:
        raise struct.error(f"string {offset:#x} has no end")
    return offset


def _text(data: bytes, offset: int) -> str:
    end = data.find(b"\0", offset)
    if end < 0:
        raise struct.error(f"string {offset:#x} has no end")
    return data[offset:end].decode("utf-8", "surrogateescape")


def _subdirectories(data: bytes, start: int, extensions: int) -> dict[int, str]:
    if not extensions:
        return {}
    magic, count = struct.unpack_from("=II", data, extensions)
    if magic != EXTENSION_MAGIC:
        raise struct.error(f"no extension directory at {extensions:#x}")
    for tag, _, offset, size in _rows(data, "=IIII", extensions + 8, count):
        if tag == EXTENSION_HWCAPS:
            offsets = _rows(data, "=I", offset, size // 4)
            return {index: _text(data, start + name) for index, (name,) in enumerate(offsets)}
    return {}
