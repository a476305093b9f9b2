"""Which file of the user-space driver a process would load, and its version by its name."""

import re
from collections.abc import Iterator
from pathlib import Path

from envdoctor.errors import ElfError
from envdoctor.facts.host import Host
from envdoctor.loader.ldcache import read_cache

# The driver names its files after itself: libcuda.so.1 -> libcuda.so.580.159.04.
_VERSION = re.compile(r"\.so\.(\d+\.\d+(?:\.\d+)?)$")
# Where container runtimes and WSL put the driver, in case no loader cache lists it.
_USUAL = ("/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/usr/lib/wsl/lib")
_CACHE_FLAGS_64 = frozenset({0x0303, 0x0A03})


def locate(host: Host, soname: str) -> tuple[str, str]:
    """Return (path, version) of the driver library a bare dlopen would take; empty strings when there is none.

    The version is empty where the file's name does not tell, as in WSL.
    """
    path = next((path for path in _candidates(host, soname) if path.exists()), None)
    return (str(path), version_of(path)) if path else ("", "")


def outside(host: Host, soname: str, prefix: Path) -> str:
    """Return the first of those files that may be opened; empty when there is none.

    A file of the environment at `prefix` may not, nor one of a folder that LD_LIBRARY_PATH names relative to the
    current one.
    """
    inside = prefix.resolve()
    elements = host.environ.get("LD_LIBRARY_PATH", "").split(":")
    here = {host.cwd / element / soname for element in elements if not element.startswith("/")}
    for path in _candidates(host, soname):
        own = path.is_relative_to(prefix) or path.resolve().is_relative_to(inside)
        if path not in here and not own and path.exists():
            return str(path)
    return ""


def version_of(library: Path) -> str:
    """Return "580.159.04" from the name behind the link, or from a sibling's name."""
    if match := _VERSION.search(library.resolve().name):
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
