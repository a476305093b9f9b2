"""The two hash tables that ELF objects carry for symbol lookup: DT_GNU_HASH and the older DT_HASH.

The first has no written standard; this follows binutils (which writes it) and glibc's dl-lookup.c (which reads it).
"""

import functools
import operator
import sys
from array import array
from collections.abc import Iterator

from envdoctor.elf.image import Image, layout

MAX_TABLE = 256 << 20
"""The largest seen is libtorch_cpu.so's string table, 6 MB."""


@functools.lru_cache(maxsize=64)  # one name is looked up in one object after the other
def gnu_hash(name: bytes) -> int:
    """Return the hash of DT_GNU_HASH: h = 33 h + byte, starting at 5381, in 32 bits."""
    powers = _powers(len(name))
    value: int = 5381 * powers[0] + sum(map(operator.mul, name, powers[1:]))
    return value & 0xFFFFFFFF


@functools.lru_cache(maxsize=4096)
def _powers(length: int) -> tuple[int, ...]:
    return tuple(pow(33, length - index, 1 << 32) for index in range(length + 1))


def sysv_hash(name: bytes) -> int:
    """Return the hash of DT_HASH, from the System V gABI."""
    value = 0
    for byte in name:
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ (high >> 24)) & ~high & 0xFFFFFFFF
    return value


def read_table(image: Image, offset: int, length: int) -> bytes:
    """Read a table whole; raise ElfError when it is too large to be one."""
    if length > MAX_TABLE:
        image.refuse(f"a table of {length} bytes is not plausible")
    return image.read(offset, length)


def read_words(image: Image, offset: int, count: int, kind: str) -> "array[int]":
    """Read `count` integers of an array type code ("H", "I" or "Q") in the file's byte order."""
    words = array(kind)
    words.frombytes(read_table(image, offset, count * words.itemsize))
    if (image.endian == "<") != (sys.byteorder == "little"):
        words.byteswap()
    return words


class GnuHash:
    """DT_GNU_HASH: a Bloom filter, then buckets, then one chain word for each hashed symbol."""

    __slots__ = ("bits", "bloom", "buckets", "chains", "count", "offset", "shift")

    def __init__(self, image: Image, address: int, *, wide: bool) -> None:
        """Read the table; `wide` for a 64-bit object, whose filter has 64-bit words."""
        start = image.offset(address)
        buckets, self.offset, words, self.shift = layout(image.endian + "IIII").unpack(image.read(start, 16))
        if not words:
            image.refuse("its GNU hash table has no Bloom filter")
        self.bits = 64 if wide else 32
        self.bloom = read_words(image, start + 16, words, "Q" if wide else "I")
        start += 16 + words * self.bits // 8
        self.buckets = read_words(image, start, buckets, "I")
        start += 4 * buckets
        last = max(self.buckets, default=0)
        self.chains = array("I")
        if last >= self.offset:
            # How long the chains are is written nowhere: the last chain ends at the first word with bit 0 set.
            self.chains = read_words(image, start, last - self.offset, "I")
            self.chains.extend(_last_chain(image, start + 4 * (last - self.offset)))
        self.count = self.offset + len(self.chains)

    def candidates(self, name: bytes) -> Iterator[int]:
        """Yield the symbol indices whose hash is the name's."""
        value = gnu_hash(name)
        word = self.bloom[value // self.bits % len(self.bloom)]
        if not (word >> value % self.bits) & (word >> (value >> self.shift) % self.bits) & 1 or not self.buckets:
            return
        index = self.buckets[value % len(self.buckets)]
        while index and self.offset <= index < self.count:
            chain = self.chains[index - self.offset]
            if (chain ^ value) < 2:  # equal but for bit 0, which marks a chain's end
                yield index
            if chain & 1:
                return
            index += 1


def _last_chain(image: Image, start: int) -> Iterator[int]:
    while True:
        length = min(1024, (image.size - start) // 4)
        if length <= 0:
            image.refuse("its GNU hash table runs past the end of the file")
        for word in read_words(image, start, length, "I"):
            yield word
            if word & 1:
                return
        start += 4 * length


class SysvHash:
    """DT_HASH: buckets and one chain word for each symbol."""

    __slots__ = ("buckets", "chains", "count")

    def __init__(self, image: Image, address: int) -> None:
        """Read the table."""
        start = image.offset(address)
        buckets, self.count = layout(image.endian + "II").unpack(image.read(start, 8))
        self.buckets = read_words(image, start + 8, buckets, "I")
        self.chains = read_words(image, start + 8 + 4 * buckets, self.count, "I")

    def candidates(self, name: bytes) -> Iterator[int]:
        """Yield the symbol indices in the name's chain."""
        if not self.buckets:
            return
        index = self.buckets[sysv_hash(name) % len(self.buckets)]
        for _ in range(self.count):  # a chain that bites its own tail must end too
            if not 0 < index < self.count:
                return
            yield index
            index = self.chains[index]
