"""C++ names in words, by the system's libstdc++ (the Itanium C++ ABI's `__cxa_demangle`).

The library and what it needs are opened by their paths in the system's own folders: looked up by name, they could be
the examined environment's, by LD_LIBRARY_PATH, and their code would run in this process.
"""

import os
from collections.abc import Callable
from functools import cache

from envdoctor.facts.host import default_library_dirs

_NEEDED = ("libm.so.6", "libgcc_s.so.1", "libstdc++.so.6")
"""What libstdc++.so.6 needs besides libc.so.6, which this process has, and itself: each is opened before its user."""


def demangle(symbol: str) -> str:
    """Return the declaration behind a mangled name; the name itself for C, or where there is no libstdc++."""
    runtime = _runtime() if symbol.startswith("_Z") else None
    if runtime is None:
        return symbol
    import ctypes  # noqa: PLC0415 - a healthy environment has nothing to demangle

    function, free = runtime
    status = ctypes.c_int()
    pointer = function(symbol.encode("utf-8", "surrogateescape"), None, None, ctypes.byref(status))
    if not pointer:
        return symbol
    try:
        return ctypes.string_at(pointer).decode("utf-8", "replace")
    finally:
        free(pointer)


@cache
def _runtime() -> tuple[Callable[..., int | None], Callable[[int], None]] | None:
    import ctypes  # noqa: PLC0415 - as above

    folders = default_library_dirs(os.uname().machine)
    paths = [next((path for folder in folders if os.path.exists(path := f"{folder}/{name}")), "") for name in _NEEDED]  # noqa: PTH110
    if not all(paths):
        return None
    try:
        *_, library = [ctypes.CDLL(path) for path in paths]
        function, free = library["__cxa_demangle"], library["free"]
    except (OSError, AttributeError):
        return None
    function.restype = ctypes.c_void_p
    function.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    # Looked up through libstdc++'s own dependencies, so that it is the free() of the malloc() it used.
    free.restype, free.argtypes = None, [ctypes.c_void_p]
    return function, free
