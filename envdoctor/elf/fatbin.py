"""The GPU architectures an object holds code for, by the headers of its fat binaries; the code itself is not read.

nvcc puts one fat binary for each translation unit into the section .nv_fatbin, one behind the other. Each has a header
(u32 magic, u16 version, u16 length of the header, u64 length of what follows) and entries (u16 kind, u16 version, u32
length of the header, u64 length of the payload, 12 bytes, u32 architecture, more up to the stated length), all of it
little-endian.

NVIDIA does not document it. The layout is that of independent readers (n-eiling/cuda-fatbin-decompression and
jiegec/fatbinary on GitHub, zluda's FatbinFileHeader); read so, each of the 456 fat binaries in torch 2.10.0+cu128's
libtorch_cuda.so holds what that torch lists as its architectures.
"""

import os
from collections import Counter
from collections.abc import Iterator

from envdoctor.elf.image import Image, layout, open_regular, read_header, sections
from envdoctor.errors import ElfError

MAGIC, VERSION = 0xBA55ED50, 1
KINDS = {1: "compute", 2: "sm"}
"""PTX, which newer GPUs can compile, and machine code."""
SHT_PROGBITS = 1
_HEADER, _ENTRY = "<IHHQ", "<HHIQ12xI"
_MAXIMUM_BINARIES = 512
_MAXIMUM_ENTRIES = 64


def architectures(path: str) -> tuple[str, ...]:
    """Return what most fat binaries of an object hold code for ("sm_90", "compute_120"); () when it has none.

    Most: one kernel may be built for an architecture more (sm_89, in one of the 456), which serves no GPU with the
    others. Raise ElfError when the file is not an ELF object or a fat binary contradicts itself.
    """
    descriptor = open_regular(path)
    try:
        image = Image(path, descriptor, os.fstat(descriptor).st_size)
        start, end = _section(image)
        binaries = [_held(image, at, until) for at, until in _binaries(image, start, end)]
    except OSError as error:
        raise ElfError(f"{path}: cannot read file data: {error.strerror}") from error
    finally:
        os.close(descriptor)
    counted = Counter(held for binary in binaries for held in binary)
    # Machine code first, as torch lists them.
    common = sorted((-kind, number) for (kind, number), times in counted.items() if 2 * times > len(binaries))
    return tuple(f"{KINDS[-kind]}_{number}" for kind, number in common)


def _section(image: Image) -> tuple[int, int]:
    """Return where the section begins and ends that starts with a fat binary; two zeros when there is none."""
    for kind, offset, size in sections(image, read_header(image)):
        if kind == SHT_PROGBITS and size >= layout(_HEADER).size:
            magic, version, *_ = layout(_HEADER).unpack(image.read(offset, layout(_HEADER).size))
            if (magic, version) == (MAGIC, VERSION):
                return offset, offset + size
    return 0, 0


def _binaries(image: Image, at: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield where the entries of each fat binary begin and end."""
    for _ in range(_MAXIMUM_BINARIES):
        if at + layout(_HEADER).size > end:
            return
        magic, version, header, length = layout(_HEADER).unpack(image.read(at, layout(_HEADER).size))
        if (magic, version) != (MAGIC, VERSION) or header < layout(_HEADER).size or at + header + length > end:
            image.refuse(f"no fat binary at offset {at:#x}, where one should begin")
        yield at + header, at + header + length
        # The next one begins at a multiple of eight.
        at += -(-(header + length) // 8) * 8


def _held(image: Image, at: int, end: int) -> set[tuple[int, int]]:
    """Return (kind, architecture) of the entries between two offsets."""
    held: set[tuple[int, int]] = set()
    for _ in range(_MAXIMUM_ENTRIES):
        if at >= end:
            return held
        kind, _, header, length, number = layout(_ENTRY).unpack(image.read(at, layout(_ENTRY).size))
        if header < layout(_ENTRY).size or at + header + length > end:
            image.refuse(f"the fat binary's entry at offset {at:#x} does not fit into it")
        if kind in KINDS:
            held.add((kind, number))
        at += header + length
    return held
