"""torch_key and triton_key, computed from the installed files without importing them.

Both hash the package's own sources, walked with pkgutil (torch_key and build_code_hash of torch/_inductor/codecache.py,
triton_key of triton/runtime/cache.py). What pkgutil and FileFinder find depends on the interpreter's suffixes, so the
walk below follows their rules for the venv's interpreter, not for ours. The functions of the installed torch and
Triton are compared with the ones these computations were written from: where they differ, the key is not known.
"""

import ast
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from envdoctor.errors import ProbeError
from envdoctor.facts.regular_file import open_regular, read_regular
from envdoctor.model.frozen import frozen

_MAXIMUM_SOURCE = 64 << 20
# Digests of those functions (see function_digest). build_code_hash and torch_key: torch 2.10 to 2.13;
# triton_key: Triton 3.6.
_KNOWN_TORCH = frozenset({"d45c4d457ae8fef6"})
_KNOWN_TRITON = frozenset({"80cc5a7a35d3ef9e"})


@frozen
class Suffixes:
    """File suffixes an interpreter imports, in the order it tries them."""

    extensions: tuple[str, ...]

    @classmethod
    def of(cls, library: str, machine: str) -> "Suffixes":
        """Return the suffixes of the interpreter whose library folder is named so ("python3.12", "python3.13t")."""
        tag = library.removeprefix("python").replace(".", "")
        return cls(extensions=(f".cpython-{tag}-{machine}-linux-gnu.so", ".abi3.so", ".so"))

    @property
    def all(self) -> tuple[str, ...]:
        """Return every suffix as FileFinder's loaders are ordered."""
        return (*self.extensions, ".py", ".pyc")

    def module_name(self, file: str) -> str:
        """Return the module a file name stands for, or an empty string (inspect.getmodulename: longest suffix wins)."""
        for suffix in sorted(self.all, key=len, reverse=True):
            if file.endswith(suffix):
                return file.removesuffix(suffix)
        return ""


def torch_key(torch: Path, version: str, suffixes: Suffixes) -> str:
    """Return the key of the torch in that folder as hex digits. Raises ProbeError when it cannot be determined."""
    inductor = torch / "_inductor"
    _require(inductor / "codecache.py", ("build_code_hash", "torch_key"), _KNOWN_TORCH)
    hasher = hashlib.sha256(version.encode())
    for name, origin in _torch_modules(torch, "", suffixes):
        hasher.update(name.encode())
        hasher.update(_read(origin))
    for extra in ("codegen/aoti_runtime/interface.cpp", "script.ld"):
        if (inductor / extra).exists():
            hasher.update(_read(inductor / extra))
    return hasher.hexdigest()


def triton_key(triton: Path, version: str, suffixes: Suffixes) -> str:
    """Return the key of the Triton in that folder. Raises ProbeError when it cannot be determined."""
    source = triton / "runtime" / "cache.py"
    _require(source, ("triton_key",), _KNOWN_TRITON)
    contents = [_sha256(source)]
    for part in ("compiler", "backends"):
        contents += [_sha256(origin) for origin in _walk_packages(triton / part, suffixes)]
    contents.append(_sha256(triton / "_C" / "libtriton.so"))
    contents += [_sha256(origin) for origin in _walk_packages(triton / "language", suffixes)]
    return version + "-".join(contents)


def _torch_modules(folder: Path, prefix: str, suffixes: Suffixes) -> Iterator[tuple[str, Path]]:
    """Yield (dotted name, file) as build_code_hash hashes them: sorted by name, a package before its modules."""
    for name, is_package in sorted(_iter_modules(folder, suffixes)):
        yield prefix + name, _origin(folder, name, suffixes)
        if is_package:
            yield from _torch_modules(folder / name, f"{prefix}{name}.", suffixes)


def _walk_packages(folder: Path, suffixes: Suffixes) -> Iterator[Path]:
    """Yield files in pkgutil.walk_packages' order: as listed, a package before its modules."""
    for name, is_package in _iter_modules(folder, suffixes):
        yield _origin(folder, name, suffixes)
        if is_package:
            yield from _walk_packages(folder / name, suffixes)


def _iter_modules(folder: Path, suffixes: Suffixes) -> Iterator[tuple[str, bool]]:
    """Yield (name, whether it is a package) by the rules of pkgutil's _iter_file_finder_modules."""
    seen: set[str] = set()
    for file in sorted(_listing(folder)):
        name = suffixes.module_name(file)
        if name == "__init__" or name in seen:
            continue
        is_package = False
        if not name and "." not in file and (folder / file).is_dir():
            name = file
            is_package = any(suffixes.module_name(inner) == "__init__" for inner in _listing(folder / file))
            if not is_package:
                continue
        if name and "." not in name:
            seen.add(name)
            yield name, is_package


def _origin(folder: Path, name: str, suffixes: Suffixes) -> Path:
    """Return the file FileFinder.find_spec names: a package's `__init__` before a module of the same name."""
    candidates = [folder / name / f"__init__{suffix}" for suffix in suffixes.all]
    candidates += [folder / f"{name}{suffix}" for suffix in suffixes.all]
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    raise ProbeError(f"{folder}/{name}: no file of that module")


def _listing(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - names alone, thousands of them
    except OSError as error:
        raise ProbeError(f"{folder}: {error.strerror}") from error


def _read(path: Path) -> bytes:
    try:
        return read_regular(path, _MAXIMUM_SOURCE)
    except OSError as error:
        raise ProbeError(f"{path}: {error.strerror}") from error


def _sha256(path: Path) -> str:
    try:
        with open_regular(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ProbeError(f"{path}: {error.strerror}") from error


def function_digest(source: bytes, names: tuple[str, ...]) -> str:
    """Return a digest of those top-level functions' lines, without indentation, comment lines and decorators.

    The lines and not the syntax tree: how a tree is written down differs from one Python to the next.
    """
    lines = source.decode("utf-8", "replace").splitlines()
    kept = [
        line
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef) and node.name in names
        for raw in lines[node.lineno - 1 : node.end_lineno]
        if (line := raw.strip()) and not line.startswith("#")
    ]
    return hashlib.sha256("\n".join(kept).encode()).hexdigest()[:16]


def _require(path: Path, names: tuple[str, ...], known: frozenset[str]) -> None:
    found = function_digest(_read(path), names)
    if found not in known:
        raise ProbeError(f"{path}: {' and '.join(names)} are not the functions this version knows ({found})")
