"""Fills in SearchRoots from what a host has: its ld.so, its loader cache, its CPU's features, the two variables.

The host's values are arguments, so that a test or a recorded host can supply them.
"""

import itertools
import re
from collections.abc import Collection, Iterable

from envdoctor.elf.image import open_regular
from envdoctor.elf.reader import EM_X86_64, ElfObject
from envdoctor.errors import ElfError
from envdoctor.loader.disk import Disk
from envdoctor.loader.ldcache import read_cache
from envdoctor.loader.search import SearchRoots, find, split_library_path, split_preload
from envdoctor.model.frozen import replace
from envdoctor.model.pattern import pattern

# The x86-64 psABI's levels, in the names /proc/cpuinfo uses. ld.so asks the CPU itself; the two agree on Linux.
X86_64_LEVELS: tuple[tuple[str, frozenset[str]], ...] = (
    ("x86-64-v2", frozenset({"cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"})),
    ("x86-64-v3", frozenset({"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"})),
    ("x86-64-v4", frozenset({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"})),
)
# glibc's init_cpu_features (sysdeps/x86/cpu-features.c) names these two for Intel's processors alone.
INTEL = "GenuineIntel"
HASWELL = frozenset({INTEL, "avx2", "bmi1", "bmi2", "abm", "movbe", "popcnt", "fma"})
AVX512_1 = frozenset({INTEL, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"})
# Two or more in a row. It begins with a literal, so that the search for it runs at memory speed.
SYSTEM_DIRECTORIES = pattern(rb"/(?:usr/)?lib[\w./+-]{0,60}/\0(?:/(?:usr/)?lib[\w./+-]{0,60}/\0)+")
MAX_INTERPRETER = 8 << 20


def search_roots(
    program: str,
    *,
    library_path: str = "",
    preload: str = "",
    cpu_flags: Collection[str] = (),
    cache_path: str = "/etc/ld.so.cache",
    cwd: str = "/",
    disk: Disk | None = None,
) -> SearchRoots:
    """Return the roots for processes of `program` (a path; symlinks are followed).

    `library_path` and `preload` are the values of LD_LIBRARY_PATH and LD_PRELOAD, `cpu_flags` what `cpu_flags_of` takes
    from /proc/cpuinfo. Raise ElfError when the program, its ld.so or the cache cannot be read.
    """
    memo = disk or Disk()
    elf = memo.elf(program)
    roots = SearchRoots(
        library_path=split_library_path(library_path),
        preload=split_preload(preload),
        cache=read_cache(cache_path),
        cwd=cwd,
        bits=elf.bits,
        machine=elf.machine,
        platform={EM_X86_64: "x86_64"}.get(elf.machine, "aarch64"),
    )
    if elf.interpreter is None:
        return roots
    built_in = system_directories(elf.interpreter)
    roots = replace(roots, default_directories=built_in, lib=built_in[0].removeprefix("/"))
    if elf.machine != EM_X86_64:
        return roots
    version = glibc_version(roots, memo)
    haswell = set(cpu_flags) >= HASWELL
    return replace(
        roots,
        hwcaps=hardware_subdirectories(cpu_flags, version),
        platform="haswell" if haswell else "x86_64",
    )


def cpu_flags_of(cpuinfo: Iterable[str]) -> frozenset[str]:
    """Return the "flags" and the "vendor_id" of the first processor in the lines of /proc/cpuinfo."""
    words: set[str] = set()
    for line in cpuinfo:
        key, _, values = line.partition(":")
        if key.rstrip() in ("vendor_id", "flags"):
            words.update(values.split())
        if key.rstrip() == "flags":
            break
    return frozenset(words)


def system_directories(interpreter: str) -> tuple[str, ...]:
    """Return the default directories compiled into an ld.so, in its order, without their final slash.

    They differ between distributions (Debian's multiarch folders, Red Hat's /lib64), so they are read out of the file:
    glibc keeps them as consecutive strings. Raise ElfError when they cannot be found there.
    """
    with open(open_regular(interpreter), "rb") as file:
        match = SYSTEM_DIRECTORIES.search(file.read(MAX_INTERPRETER))
    if match is None:
        raise ElfError(f"{interpreter}: the loader's default directories cannot be read; it may not be glibc's")
    return tuple(part.decode().rstrip("/") for part in match[0].split(b"\0") if part)


def glibc_version(roots: SearchRoots, disk: Disk) -> tuple[int, int]:
    """Return the version of the libc the roots lead to: the newest GLIBC_x.y it defines; (0, 0) when there is none."""
    found = find("libc.so.6", None, None, roots, disk)
    libc: ElfObject | None = disk.elf(found.path) if found.path else None
    names = libc.defines if libc and libc.defines else ()
    numbers = [re.fullmatch(r"GLIBC_(\d+)\.(\d+)", name) for name in names]
    return max(((int(match[1]), int(match[2])) for match in numbers if match), default=(0, 0))


def hardware_subdirectories(cpu_flags: Collection[str], glibc: tuple[int, int]) -> tuple[str, ...]:
    """Return the subdirectories an x86-64 ld.so tries in every directory, best first.

    glibc-hwcaps came with 2.33. The older tls/haswell/... combinations went with 2.37.
    """
    flags = set(cpu_flags)
    levels = [name for name, needs in itertools.takewhile(lambda level: level[1] <= flags, X86_64_LEVELS)]
    named = tuple(f"glibc-hwcaps/{name}" for name in reversed(levels)) if glibc >= (2, 33) else ()
    return named + (_legacy_subdirectories(flags) if glibc < (2, 37) else ())


def _legacy_subdirectories(flags: set[str]) -> tuple[str, ...]:
    parts = ["tls", "haswell" if flags >= HASWELL else "x86_64"]
    if flags >= AVX512_1:
        parts.append("avx512_1")
    parts.append("x86_64")
    chosen = itertools.product((True, False), repeat=len(parts))
    names = ("/".join(itertools.compress(parts, selection)) for selection in chosen)
    return tuple(dict.fromkeys(name for name in names if name))
