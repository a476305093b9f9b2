"""The GPU architectures that the installed torch holds code for, read from its library without loading it.

torch.cuda.get_arch_list() splits one string that the build compiles into libtorch_python.so (CUDA_ARCH_FLAGS in
torch/csrc/cuda/Module.cpp): "sm_75 sm_80 sm_86 sm_90 sm_100 sm_120", a "compute_90" for PTX. It is looked for in the
read-only segments alone. Where it cannot be read, the headers of libtorch_cuda.so's kernels tell the same.
"""

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path

from envdoctor.elf.fatbin import architectures
from envdoctor.errors import ElfError
from envdoctor.facts.context import Reading
from envdoctor.model.frozen import frozen
from envdoctor.model.pattern import pattern
from envdoctor.probes.loading.torch_build import TorchBuild

_ARCHITECTURES = pattern(rb"\0((?:sm|compute)_\d+[af]?(?: (?:sm|compute)_\d+[af]?)*)\0")
_STARTS = (b"\0sm_", b"\0compute_")
_HEADER = struct.Struct("<4sBB10xHHIQQQIHHHHHH")  # ELF64, little-endian
_SEGMENT = struct.Struct("<IIQQQQQQ")
_PT_LOAD, _READ_ONLY = 1, 4
_MAXIMUM_SEGMENTS = 64


@frozen
class GpuCode:
    """What torch's kernels were compiled for."""

    architectures: tuple[str, ...]
    """"sm_90", "compute_120"; empty when there is no CUDA build or it could not be determined."""
    told_from: str
    """The library that told, or why it could not be determined; empty without a CUDA build."""


def probe(reading: Reading) -> GpuCode:
    """Search torch/lib/libtorch_python.so of a CUDA build, else read the headers in libtorch_cuda.so."""
    build = reading.fact(TorchBuild)
    if not build.present or not build.cuda:
        return GpuCode(architectures=(), told_from="")
    library = Path(build.folder) / "lib/libtorch_python.so"
    try:
        found = _architectures(library)
        problem = f"{library} names no architectures"
    except (OSError, ValueError, struct.error) as error:
        found, problem = (), f"{library}: {error}"
    if found:
        return GpuCode(architectures=found, told_from=str(library))
    kernels = Path(build.folder) / "lib/libtorch_cuda.so"
    try:
        found = architectures(str(kernels))
    except ElfError as error:
        return GpuCode(architectures=(), told_from=f"{problem}; {error.message}")
    if not found:
        return GpuCode(architectures=(), told_from=f"{problem}; {kernels} holds no GPU code")
    return GpuCode(architectures=found, told_from=f"{kernels} ({problem})")


def _architectures(library: Path) -> tuple[str, ...]:
    if not library.is_file():
        raise OSError("no such file")
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        # The constants are behind the symbol tables, so the last segment is searched first.
        for prefix in _STARTS:
            for start, end in reversed(list(read_only_segments(content))):
                # A build for one architecture is a short string that other code may hold too: the longest is meant.
                if found := max(_lists(content, prefix, start, end), key=len, default=b""):
                    return tuple(found.decode().split())
    return ()


def _lists(content: mmap.mmap, prefix: bytes, start: int, end: int) -> Iterator[bytes]:
    """Yield each list of architectures between the two offsets that begins with the prefix."""
    # find() is memmem, ten times as fast over 20 MB as the expression alone.
    at = content.find(prefix, start, end)
    while at >= 0:
        if match := _ARCHITECTURES.match(content, at, end):
            yield match[1]
        at = content.find(prefix, at + 1, end)


def read_only_segments(content: mmap.mmap) -> Iterator[tuple[int, int]]:
    """Yield (start, end) in the file of each loaded segment that is neither written nor executed.

    Raises ValueError or struct.error for what is no 64-bit little-endian ELF file.
    """
    magic, bits, order, *rest = _HEADER.unpack_from(content)
    if magic != b"\x7fELF" or (bits, order) != (2, 1):
        raise ValueError("no 64-bit little-endian ELF file")
    table, size, count = rest[4], rest[8], rest[9]
    for at in range(min(count, _MAXIMUM_SEGMENTS)):
        kind, flags, offset, _, _, length, _, _ = _SEGMENT.unpack_from(content, table + at * size)
        if kind == _PT_LOAD and flags == _READ_ONLY:
            # One byte earlier: a segment's first string has the NUL before it in the padding.
            yield max(offset - 1, 0), min(offset + length, len(content))
