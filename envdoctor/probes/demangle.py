"""C++ names in words, by this process's own libstdc++ (the Itanium C++ ABI's `__cxa_demangle`)."""

import ctypes
from functools import cache


def demangle(symbol: str) -> str:
    """Return the declaration behind a mangled name; the name itself for C, or where there is no libstdc++."""
    runtime = _runtime() if symbol.startswith("_Z") else None
    if runtime is None:
        return symbol
    status = ctypes.c_int()
    pointer = runtime.__cxa_demangle(symbol.encode("utf-8", "surrogateescape"), None, None, ctypes.byref(status))
    if not pointer:
        return symbol
    try:
        return ctypes.string_at(pointer).decode("utf-8", "replace")
    finally:
        runtime.free(ctypes.c_void_p(pointer))


@cache
def _runtime() -> ctypes.CDLL | None:
    try:
        runtime = ctypes.CDLL("libstdc++.so.6")
    except OSError:
        return None
    runtime.__cxa_demangle.restype = ctypes.c_void_p
    runtime.__cxa_demangle.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    # Found through libstdc++'s own dependency, so that it is the free() of the malloc() used.
    runtime.free.restype = None
    return runtime
