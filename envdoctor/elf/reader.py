"""Reads the dynamic section of one ELF file: what it is called, what it needs and where it wants that looked for.

Only the headers, the dynamic section and the strings it points at are read, with `pread`: a 1 GB library costs the same
as a small one.
"""

import os

from envdoctor.elf.image import PT_INTERP, Image, dynamic_entries, open_regular, read_header
from envdoctor.elf.versions import VersionNeed, version_definitions, version_needs
from envdoctor.errors import ElfError
from envdoctor.model.frozen import frozen

# torch's own objects ask for 20 libraries and some 50 versions; the names of all have 2 KB.
_MOST_NEEDED = 2000
_MOST_NAMES = 1 << 20

DT_NEEDED, DT_STRTAB, DT_STRSZ, DT_SONAME, DT_RPATH, DT_RUNPATH, DT_FLAGS = 1, 5, 10, 14, 15, 29, 30
DT_VERDEF, DT_VERNEED, DT_FLAGS_1 = 0x6FFFFFFC, 0x6FFFFFFE, 0x6FFFFFFB
DF_1_NODEFLIB, DF_1_PIE = 0x800, 0x8000000
EM_386, EM_X86_64, EM_AARCH64 = 3, 62, 183
ET_EXEC, ET_DYN = 2, 3


@frozen
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


def read(path: str) -> ElfObject:
    """Read one file; raise ElfError with the reason when it is not a regular file or no well-formed ELF object."""
    fd = open_regular(path)
    try:
        status = os.fstat(fd)
        image = Image(path, fd, status.st_size)
        return _parse(image, (status.st_dev, status.st_ino))
    except OSError as error:
        raise ElfError(f"{path}: cannot read file data: {error.strerror}") from error
    finally:
        os.close(fd)


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
            if len(needed) > _MOST_NEEDED:
                image.refuse(f"it asks for more than {_MOST_NEEDED} libraries, which is not plausible")
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
        needs=tuple(version_needs(image, single[DT_VERNEED], strings.at)) if strings and DT_VERNEED in single else (),
        defines=tuple(name for name, _ in version_definitions(image, single[DT_VERDEF], strings.at))
        if strings and DT_VERDEF in single
        else None,
    )


def _elements(value: str | None) -> tuple[str, ...] | None:
    if value is None:
        return None
    return tuple(value.split(":")) if value else ()


class _Strings:
    """The string table, read through one window: the strings a dynamic section names lie close together."""

    __slots__ = ("base", "image", "left", "read", "size", "start", "window")

    def __init__(self, image: Image, single: dict[int, int]) -> None:
        if DT_STRTAB not in single:
            image.refuse("the dynamic section names no string table")
        self.image = image
        self.base = image.offset(single[DT_STRTAB])
        self.size = single.get(DT_STRSZ, 0)
        self.start = 0
        self.window = b""
        self.read: dict[int, str] = {}
        self.left = _MOST_NAMES

    def at(self, offset: int) -> str:
        found = self.read.get(offset)
        if found is None:
            found = self.read[offset] = self._at(offset)
            # Each of many offsets may begin another tail of one long name.
            self.left -= len(found)
            if self.left < 0:
                self.image.refuse(f"its names have more than {_MOST_NAMES} bytes, which is not plausible")
        return found

    def _at(self, offset: int) -> str:
        if offset >= self.size:
            self.image.refuse(f"string {offset:#x} is outside the string table of {self.size} bytes")
        if not self.start <= offset < self.start + len(self.window):
            self.start = max(0, offset - 1024)
            self.window = self.image.peek(self.base + self.start, 8192)
        end = self.window.find(b"\0", offset - self.start)
        if end >= 0:
            return self.window[offset - self.start : end].decode("utf-8", "surrogateescape")
        return self.image.string(self.base + offset)
