"""Our own modules found without a search, and their bytecode read with one open.

Python's finder lists folders, and its loader builds and looks at each path several times: over the 150 modules of ours
that a gate loads, a twentieth of its time. Bytecode is believed for the reasons for which Python's loader believes it
(PEP 552: the magic number, the source's time and size); anything else is left to Python's own finder and loader.
"""

import marshal
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import MAGIC_NUMBER
from types import CodeType, ModuleType

_OURS = __name__.partition(".")[0] + "."
_BY_TIME = b"\0\0\0\0"
_HEADER, _WORD = 16, 0xFFFFFFFF
_COMPILED = f".{sys.implementation.cache_tag}.pyc"


class _Loader(SourceFileLoader):
    """Python's own, with a shorter way to bytecode that is up to date."""

    def __init__(self, name: str, path: str, status: os.stat_result, compiled: str) -> None:
        super().__init__(name, path)
        self._compiled = compiled
        sizes = (int(status.st_mtime), status.st_size)
        self._header = MAGIC_NUMBER + _BY_TIME + b"".join((size & _WORD).to_bytes(4, "little") for size in sizes)

    def get_code(self, fullname: str) -> CodeType | None:
        """Return the module's code, as Python's loader does."""
        try:
            with open(self._compiled, "rb", buffering=0) as file:  # noqa: PTH123 - a string path
                data = file.read()
            if data[:_HEADER] == self._header:
                code = marshal.loads(memoryview(data)[_HEADER:])  # noqa: S302 - as Python does with it
                # Of a copied checkout it names the files of the other one until it is compiled again.
                if isinstance(code, CodeType) and code.co_filename == self.path:
                    return code
        except (OSError, EOFError, ValueError, TypeError):
            pass  # as Python's loader judges it
        return super().get_code(fullname)


class _Finder:
    """A meta path finder for modules of this package."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        del target
        if not path or not name.startswith(_OURS):
            return None
        folder, stem, end = path[0], name.rpartition(".")[2], ""
        status = _status(f"{folder}/{stem}.py")
        if status is None:
            folder, stem, end = f"{folder}/{stem}", "__init__", f"{folder}/{stem}"
            status = _status(f"{folder}/__init__.py")
        if status is None:
            return None
        compiled = f"{folder}/__pycache__/{stem}{_COMPILED}"
        loader = _Loader(name, f"{folder}/{stem}.py", status, compiled)
        spec = ModuleSpec(name, loader, origin=loader.path, is_package=bool(end))
        spec.has_location, spec.cached = True, compiled
        if end:
            spec.submodule_search_locations = [end]
        return spec


def _status(path: str) -> os.stat_result | None:
    try:
        status = os.stat(path)  # noqa: PTH116 - a string path
    except OSError:
        return None
    return status if stat.S_ISREG(status.st_mode) else None


def quickly() -> None:
    """Find our modules this way from now on, where Python keeps bytecode as it does by default."""
    if not (sys.flags.optimize or sys.pycache_prefix) and _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)


@contextmanager
def found_quickly() -> Iterator[None]:
    """Find our modules this way, and leave `sys.meta_path` as it was: the process is somebody else's."""
    before = _Finder in sys.meta_path
    quickly()
    try:
        yield
    finally:
        if not before and _Finder in sys.meta_path:
            sys.meta_path.remove(_Finder)
