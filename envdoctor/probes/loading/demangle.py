"""C++ names in words, by this process's own libstdc++ (the Itanium C++ ABI's `__cxa_demangle`)."""

from collections.abc import Callable
from functools import cache


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

    try:
        library = ctypes.CDLL("libstdc++.so.6")
        function, free = library["__cxa_demangle"], library["free"]
    except (OSError, AttributeError):
        return None
    function.restype = ctypes.c_void_p
    function.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    # Looked up through libstdc++'s own dependencies, so that it is the free() of the malloc() it used.
    free.restype, free.argtypes = None, [ctypes.c_void_p]
    return function, free
