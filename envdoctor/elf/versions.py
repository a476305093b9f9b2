"""Reads the GNU version sections: the versions an object asks for and those it defines (LSB, "Symbol Versioning")."""

from collections.abc import Callable, Iterator

from envdoctor.elf.image import MAX_DYNAMIC, Image, layout
from envdoctor.model.frozen import frozen

MAX_VERSIONS = 1 << 16
VERNEED = "HHIII"  # vn_version, vn_cnt, vn_file, vn_aux, vn_next
VERNAUX = "IHHII"  # vna_hash, vna_flags, vna_other, vna_name, vna_next
VERDEF = "HHHHIII"  # vd_version, vd_flags, vd_ndx, vd_cnt, vd_hash, vd_aux, vd_next
VERDAUX = "II"  # vda_name, vda_next
VER_FLG_WEAK = 2

Text = Callable[[int], str]
"""Turns an offset in the string table into the string."""


@frozen
class VersionNeed:
    """One version name an object asks of a file it needs, for example GLIBC_2.34 of libc.so.6."""

    file: str
    name: str
    index: int
    """The number DT_VERSYM uses for this version in the object."""
    weak: bool


class _Records:
    """A chain of version records, linked by forward offsets, read through a window that grows on demand."""

    __slots__ = ("base", "data", "image", "left")

    def __init__(self, image: Image, address: int) -> None:
        self.image = image
        self.base = image.offset(address)
        self.data = b""
        self.left = MAX_VERSIONS

    def unpack(self, fields: str, position: int) -> tuple[int, ...]:
        record = layout(self.image.endian + fields)
        end = position + record.size
        self.left -= 1
        if self.left < 0 or end > MAX_DYNAMIC:
            self.image.refuse("its version records are not plausible")
        if end > len(self.data):
            length = min(max(4096, 4 * end), self.image.size - self.base)
            self.data = self.image.read(self.base, length)
            if end > length:
                self.image.refuse("its version records run past the end of the file")
        values: tuple[int, ...] = record.unpack_from(self.data, position)
        return values


def version_needs(image: Image, address: int, text: Text) -> Iterator[VersionNeed]:
    """Yield what DTVERNEED asks of the needed files, in the file's order."""
    records = _Records(image, address)
    position = 0
    while True:
        _, count, file, first, following = records.unpack(VERNEED, position)
        name = text(file)
        auxiliary = position + first
        for _ in range(count):
            _, flags, index, version, next_auxiliary = records.unpack(VERNAUX, auxiliary)
            # The top bit of the index marks a hidden version; what DTVERSYM compares is the rest.
            yield VersionNeed(file=name, name=text(version), index=index & 0x7FFF, weak=bool(flags & VER_FLG_WEAK))
            if not next_auxiliary:
                break
            auxiliary += next_auxiliary
        if not following:
            return
        position += following


def version_definitions(image: Image, address: int, text: Text) -> Iterator[tuple[str, int]]:
    """Yield (name, index in DTVERSYM) of every version the object defines, its own base entry (index 1) included."""
    records = _Records(image, address)
    position = 0
    while True:
        _, _, index, count, _, first, following = records.unpack(VERDEF, position)
        if count:
            name, _ = records.unpack(VERDAUX, position + first)
            yield text(name), index & 0x7FFF
        if not following:
            return
        position += following
