"""Where ld.so looks for a bare name, in which order, and what it finds.

The order is that of glibc's `_dl_map_object` (elf/dl-load.c), which ld.so(8) describes:

1. an object that is already mapped under that name, file name or DT_SONAME (the graph's business, not this module's);
2. unless the requester has DT_RUNPATH: its DT_RPATH, then that of the object that loaded it, on up to the executable's;
3. LD_LIBRARY_PATH, where an empty element is the current directory;
4. the requester's own DT_RUNPATH, which nobody inherits;
5. the one path /etc/ld.so.cache names;
6. the default directories built into ld.so.

In each directory the hardware subdirectories come first. A file of another ELF class or machine is passed over; a file
that is not an ELF object at all ends the search with an error. Nothing here reads the process environment.
"""

import os
from collections.abc import Iterable, Iterator
from typing import Literal, Protocol

from envdoctor.elf.reader import DF_1_NODEFLIB, EM_X86_64, ElfObject
from envdoctor.errors import ElfError
from envdoctor.loader.disk import Disk
from envdoctor.loader.ldcache import LIBRARY_FLAGS, NO_CACHE, LoaderCache
from envdoctor.model.frozen import frozen

FoundVia = Literal[
    "program",
    "already loaded",
    "absolute path",
    "RPATH",
    "LD_LIBRARY_PATH",
    "RUNPATH",
    "ld.so.cache",
    "default directory",
]
"""How a name became a file. "absolute path" is any name with a slash in it."""


Outcome = Literal["not there", "found", "wrong ELF class", "wrong machine", "not readable"]


@frozen
class SearchRoots:
    """Everything outside the ELF files that decides a search. `envdoctor.loader.host` fills it in from a host."""

    library_path: tuple[str, ...] = ()
    """Elements of LD_LIBRARY_PATH; "" is the current directory."""
    preload: tuple[str, ...] = ()
    """Names of LD_PRELOAD and /etc/ld.so.preload."""
    cache: LoaderCache = NO_CACHE
    default_directories: tuple[str, ...] = ("/lib64", "/usr/lib64")
    hwcaps: tuple[str, ...] = ()
    """Subdirectories tried first in every directory, best first, for example "glibc-hwcaps/x86-64-v3"."""
    cwd: str = "/"
    lib: str = "lib64"
    """What $LIB stands for in a search path."""
    platform: str = "x86_64"
    """What $PLATFORM stands for."""
    bits: int = 64
    machine: int = EM_X86_64


class Mapped(Protocol):
    """What a search needs to know of a mapped object."""

    @property
    def elf(self) -> ElfObject:
        """The parsed object."""

    @property
    def origin(self) -> str:
        """What $ORIGIN stands for in it: the directory of the path it was opened by, symlinks left as they are."""

    @property
    def loader(self) -> "Mapped | None":
        """The object whose DT_NEEDED brought it in; None for the program and for what dlopen opened."""


@frozen
class Attempt:
    """One place that was looked at for a name, and why it was passed over or taken."""

    via: FoundVia
    directory: str
    """The directory, or the cache file; for "absolute path" the path itself."""
    of: str = ""
    """For RPATH and RUNPATH: the path of the object that carries it."""
    outcome: Outcome = "not there"
    path: str = ""
    """The file that was looked at, where there was one."""


@frozen
class SearchResult:
    """The result of a search: a path when something was found, and every attempt in order either way."""

    path: str | None
    tried: tuple[Attempt, ...]
    other_class: bool = False
    """True when a file of the other ELF class was passed over: ld.so then says so instead of "No such file"."""

    @property
    def via(self) -> FoundVia:
        """How it was found; of a failed search, where it ended."""
        return self.tried[-1].via

    @property
    def rpath_of(self) -> str:
        """The object whose DT_RPATH or DT_RUNPATH led to the file, or ""."""
        return self.tried[-1].of


def split_library_path(value: str) -> tuple[str, ...]:
    """Split LD_LIBRARY_PATH as ld.so does, at colons and semicolons; an empty value names nothing."""
    return tuple(value.replace(";", ":").split(":")) if value else ()


def split_preload(value: str) -> tuple[str, ...]:
    """Split LD_PRELOAD as ld.so does, at colons and spaces."""
    return tuple(value.replace(":", " ").split())


def origin_of(path: str, cwd: str) -> str:
    """Return what $ORIGIN stands for in an object opened by that path."""
    return os.path.dirname(os.path.join(cwd, path)) or "/"


def expand(text: str, origin: str, roots: SearchRoots) -> str:
    """Replace $ORIGIN, $LIB and $PLATFORM, with or without braces; other dollar signs stay as they are."""
    if "$" not in text:
        return text
    for name, value in (("ORIGIN", origin), ("PLATFORM", roots.platform), ("LIB", roots.lib)):
        text = _replace_token(text, name, value)
    return text


def _replace_token(text: str, name: str, value: str) -> str:
    parts = text.split(f"${name}")
    joined = parts[0]
    for part in parts[1:]:
        # "$LIBRARY" is not "$LIB" followed by "RARY".
        joined += (f"${name}" if part[:1].isalnum() or part[:1] == "_" else value) + part
    return joined.replace(f"${{{name}}}", value)


def directories(elements: Iterable[str], origin: str, roots: SearchRoots) -> tuple[str, ...]:
    """Turn raw search-path elements into directories, each once, the empty one into the current directory."""
    return tuple(dict.fromkeys(os.path.join(roots.cwd, expand(element, origin, roots)) for element in elements))


def order(requester: Mapped | None, program: Mapped | None, roots: SearchRoots) -> Iterator[tuple[FoundVia, str, str]]:
    """Yield (via, directory, object whose path it is) in ld.so's order for a name that `requester` asks for."""
    yield from _inherited(requester, program, roots)
    for directory in directories(roots.library_path, program.origin if program else "", roots):
        yield "LD_LIBRARY_PATH", directory, ""
    if requester is not None and requester.elf.runpath:
        for directory in directories(requester.elf.runpath, requester.origin, roots):
            yield "RUNPATH", directory, requester.elf.path
    if roots.cache.path:
        yield "ld.so.cache", roots.cache.path, ""
    if requester is None or not requester.elf.flags_1 & DF_1_NODEFLIB:
        for directory in roots.default_directories:
            yield "default directory", directory, ""


def _inherited(
    requester: Mapped | None, program: Mapped | None, roots: SearchRoots
) -> Iterator[tuple[FoundVia, str, str]]:
    if requester is not None and requester.elf.runpath is not None:
        return
    for mapped in _chain(requester, program):
        # In one object DT_RUNPATH hides DT_RPATH, for its own needs and for those of what it loaded.
        if mapped.elf.rpath and mapped.elf.runpath is None:
            for directory in directories(mapped.elf.rpath, mapped.origin, roots):
                yield "RPATH", directory, mapped.elf.path


def _chain(requester: Mapped | None, program: Mapped | None) -> Iterator[Mapped]:
    link = requester
    seen_program = False
    while link is not None:
        yield link
        seen_program = seen_program or link is program
        link = link.loader
    if program is not None and not seen_program:
        yield program


def find(name: str, requester: Mapped | None, program: Mapped | None, roots: SearchRoots, disk: Disk) -> SearchResult:
    """Search for a name without a slash. Raise ElfError when ld.so would meet a file that is not an ELF object."""
    tried: list[Attempt] = []
    other_class = False
    for via, directory, of in _once(order(requester, program, roots)):
        for path in _candidates(via, directory, name, requester, roots, disk):
            outcome = _judge(path, roots, disk)
            tried.append(Attempt(via=via, directory=directory, of=of, outcome=outcome, path=path))
            if outcome == "found":
                return SearchResult(path=path, tried=tuple(tried), other_class=other_class)
            other_class = other_class or outcome == "wrong ELF class"
        if not tried or tried[-1].directory != directory or tried[-1].via != via:
            tried.append(Attempt(via=via, directory=directory, of=of))
    return SearchResult(path=None, tried=tuple(tried), other_class=other_class)


def _once(steps: Iterator[tuple[FoundVia, str, str]]) -> Iterator[tuple[FoundVia, str, str]]:
    """Leave out directories that were looked into before: what was not there is not there now."""
    seen: set[str] = set()
    for step in steps:
        if step[1] not in seen:
            seen.add(step[1])
            yield step


def _candidates(
    via: FoundVia, directory: str, name: str, requester: Mapped | None, roots: SearchRoots, disk: Disk
) -> Iterator[str]:
    if via == "ld.so.cache":
        path = _from_cache(name, requester, roots)
        if path is not None and disk.identity(path) is not None:
            yield path
        return
    for prefix in disk.searched(directory, roots.hwcaps):
        if disk.identity(prefix + name) is not None:
            yield prefix + name


def _from_cache(name: str, requester: Mapped | None, roots: SearchRoots) -> str | None:
    levels = tuple(item.removeprefix("glibc-hwcaps/") for item in roots.hwcaps if item.startswith("glibc-hwcaps/"))
    path = roots.cache.choose(name, flags=LIBRARY_FLAGS.get((roots.bits, roots.machine), 0x0003), hwcaps=levels)
    if path is not None and requester is not None and requester.elf.flags_1 & DF_1_NODEFLIB:
        below_default = any(path.startswith(f"{directory}/") for directory in roots.default_directories)
        return None if below_default else path
    return path


def _judge(path: str, roots: SearchRoots, disk: Disk) -> Outcome:
    try:
        elf = disk.elf(path)
    except ElfError as error:
        if isinstance(error.__cause__, PermissionError):
            return "not readable"
        raise
    if elf.bits != roots.bits:
        return "wrong ELF class"
    return "found" if elf.machine == roots.machine else "wrong machine"
