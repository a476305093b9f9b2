"""The string table of an object's dynamic symbols.

libtorch_cpu.so's has 6 MB and is held. libcusparseLt.so.0's has 26 MB, of which a load compares a few names: of such a
table only the pieces that are asked for are read.
"""

import os

from envdoctor.elf.image import Image, open_regular
from envdoctor.elf.symbol_hash import MAX_TABLE, read_table
from envdoctor.errors import ElfError

HELD = 16 << 20
"""Bytes up to which a table is held."""
_PIECE = 1 << 14
# A million symbols can each begin another tail of one name. The longest of C++'s have some 10 KB.
_LONG, _LONGEST, _MOST_LONG = 1 << 12, 1 << 16, 8 << 20


class StringTable:
    """NUL-terminated names, by their offsets."""

    __slots__ = ("_at", "_left", "_offset", "_path", "_size", "data")

    def __init__(self, image: Image, offset: int, size: int) -> None:
        """Read a table that is held; raise ElfError when it is too large to be one, or ends behind the file."""
        self._path, self._offset, self._size = image.path, offset, size
        self._at = 0
        self._left = _MOST_LONG
        # Too large to be a table is refused in either case.
        self.data = b"" if HELD < size <= MAX_TABLE else read_table(image, offset, size)
        """The table, or of a large one the piece from `_at` on."""
        if offset + size > image.size:
            image.refuse("its string table runs past the end of the file")

    def piece(self, start: int, length: int) -> bytes:
        """Return that many bytes; fewer where the table ends."""
        if self._size > HELD and not self._at <= start <= start + length <= self._at + len(self.data):
            self._fetch(start, max(length, _PIECE))
        return self.data[start - self._at : start - self._at + length]

    def name(self, start: int) -> bytes:
        """Return the name at an offset; empty where it has no end."""
        if self._size <= HELD:
            end = self.data.find(b"\0", start)
            if end - start > _LONG or end < 0:
                self._spend((end if end >= 0 else self._size) - start)
            return self.data[start:end] if end >= 0 else b""
        length = 256
        while True:
            if length > _LONG:
                self._spend(length)
            found, ended, _ = self.piece(start, length).partition(b"\0")
            if ended:
                return found
            if start + length >= self._size:
                return b""
            length *= 16

    def _spend(self, length: int) -> None:
        """Count a long name; raise ElfError when it, or the sum of them, is too long to be a name."""
        self._left -= length
        if length > _LONGEST or self._left < 0:
            raise ElfError(f"{self._path}: a name of {length} bytes in its string table is not plausible")

    def _fetch(self, start: int, length: int) -> None:
        descriptor = open_regular(self._path)
        try:
            self.data = os.pread(descriptor, max(0, min(length, self._size - start)), self._offset + start)
            self._at = start
        except OSError as error:
            raise ElfError(f"{self._path}: cannot read file data: {error.strerror}") from error
        finally:
            os.close(descriptor)
