"""Which file of the user-space driver a process would load, and what it is: by its content, not its folder's name."""

import os
from collections.abc import Iterator
from pathlib import Path

from envdoctor.errors import ElfError
from envdoctor.facts.host import Host
from envdoctor.facts.regular_file import read_regular
from envdoctor.loader.ldcache import read_cache
from envdoctor.model.pattern import pattern

# The driver names its files after itself: libcuda.so.1 -> libcuda.so.580.159.04.
# WSL's is libcuda.so.1.1, and that is no driver's version.
_VERSION = pattern(r"\.so\.(\d{3,}\.\d+(?:\.\d+)?)$")
# The CUDA toolkit's stub, to link against where no driver is, has 70 kB; libcuda.so.580.159.04 has 96 MB.
_MAXIMUM_STUB = 4 * 1024 * 1024
# WSL's libcuda is small too: it hands every call on to the one of Windows' driver.
_OF_WSL = (b"dxcore", b"/usr/lib/wsl")
# Where container runtimes and WSL put the driver, in case no loader cache lists it.
_USUAL = ("/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/usr/lib/wsl/lib")
_CACHE_FLAGS_64 = frozenset({0x0303, 0x0A03})


def locate(host: Host, soname: str) -> tuple[str, str]:
    """Return (path, version) of the driver library a bare dlopen would take; empty strings when there is none.

    The version is empty where the file's name does not tell, as in WSL.
    """
    path = next((path for path in _candidates(host, soname) if path.exists()), None)
    return (str(path), version_of(path)) if path else ("", "")


def behind(host: Host, soname: str, stub: str) -> str:
    """Return the driver library that would be taken if `stub` were not in front of it; empty when there is none."""
    others = (path for path in _candidates(host, soname) if path.exists() and not is_stub(str(path)))
    return next((str(path) for path in others if str(path) != stub), "")


def is_stub(library: str) -> bool:
    """Tell the toolkit's stub of libcuda, which answers every call with error 34 (cuda.h: STUB_LIBRARY)."""
    try:
        real = Path(os.path.realpath(library))
        if _VERSION.search(real.name) or real.stat().st_size > _MAXIMUM_STUB:
            return False
        data = read_regular(real, _MAXIMUM_STUB)
    except OSError:
        return False
    return b"cuInit" in data and not any(word in data for word in _OF_WSL)


def outside(host: Host, soname: str, prefix: Path) -> str:
    """Return the first of those files that may be opened; empty when there is none.

    A file of the environment at `prefix` may not, nor one of a folder that LD_LIBRARY_PATH names relative to the
    current one.
    """
    inside = os.path.realpath(prefix)
    elements = host.environ.get("LD_LIBRARY_PATH", "").split(":")
    here = {host.cwd / element / soname for element in elements if not element.startswith("/")}
    for path in _candidates(host, soname):
        own = path.is_relative_to(prefix) or Path(os.path.realpath(path)).is_relative_to(inside)
        if path not in here and not own and path.exists():
            return str(path)
    return ""


def version_of(library: Path) -> str:
    """Return "580.159.04" from the name behind the link, or from a sibling's name."""
    if match := _VERSION.search(Path(os.path.realpath(library)).name):
        return match[1]
    names = sorted(path.name for path in library.parent.glob(f"{library.name.rpartition('.')[0]}.*"))
    return next((match[1] for name in names if (match := _VERSION.search(name))), "")


def _candidates(host: Host, soname: str) -> Iterator[Path]:
    elements = host.environ.get("LD_LIBRARY_PATH", "").split(":")
    yield from (host.cwd / element / soname for element in elements if element)
    try:
        entries = read_cache(str(host.ld_so_cache)).entries(soname)
    except ElfError:
        entries = ()
    yield from (Path(entry.path) for entry in entries if entry.flags in _CACHE_FLAGS_64)
    yield from (Path(folder) / soname for folder in (*host.library_dirs, *_USUAL))
