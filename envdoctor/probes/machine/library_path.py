"""What LD_LIBRARY_PATH, LD_PRELOAD and CUDA_HOME put in the way of the environment's own libraries."""

import os
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from envdoctor.facts.context import Reading
from envdoctor.facts.regular_file import read_prefix, read_regular
from envdoctor.model.frozen import frozen
from envdoctor.model.pattern import pattern
from envdoctor.probes.venv.records import index
from envdoctor.standards.bounded_json import loads

_CUDA_VERSION = pattern(r"^#define\s+CUDA_VERSION\s+(\d+)", re.MULTILINE)
_LIBRARY = pattern(r"\.so(\.|$)")
_NO_LIBRARY = "is not a shared library"
_MAXIMUM_HEADER = 2 * 1024 * 1024


@frozen
class LibraryFolder:
    """One element of LD_LIBRARY_PATH."""

    element: str
    """As written; an empty one means the current folder."""
    path: str
    present: bool
    shadows: tuple[str, ...]
    """File names of libraries here that other files of the environment provide too."""


@frozen
class Preload:
    """One element of LD_PRELOAD."""

    element: str
    problem: str
    """"does not exist", "is empty", "is not a shared library"; empty when it fits, and for a bare name, which ld.so
    looks up like any other library."""


@frozen
class LibraryPath:
    """The three variables, element by element."""

    folders: tuple[LibraryFolder, ...]
    preloads: tuple[Preload, ...]
    cuda_home: str
    """The toolkit that torch.utils.cpp_extension would take: of CUDA_HOME, else CUDA_PATH, else of the nvcc on PATH;
    empty when none of them names one."""
    cuda_home_from: str
    """The variable: CUDA_HOME, CUDA_PATH or PATH."""
    cuda_home_version: str
    """"13.0"; empty when no file there tells."""
    current_folder_libraries: tuple[str, ...]
    """Shared libraries in the current folder, where an empty element makes ld.so look there."""


def probe(reading: Reading) -> LibraryPath:
    """Split the variables as ld.so does and look for the environment's own library names in the folders."""
    host = reading.host
    library_path = host.environ.get("LD_LIBRARY_PATH")
    # ld.so takes both separators, and an empty variable as none at all.
    elements = re.split("[:;]", library_path) if library_path else []
    provided = _provided(reading) if elements else {}
    preloads = re.split(r"[:\s]+", host.environ.get("LD_PRELOAD", ""))
    home, variable = _cuda_home(host.environ)
    return LibraryPath(
        folders=tuple(_folder(element, host.cwd, provided) for element in elements),
        preloads=tuple(_preload(element) for element in preloads if element),
        cuda_home=home,
        cuda_home_from=variable,
        cuda_home_version=_cuda_version(Path(home)) if home else "",
        current_folder_libraries=tuple(sorted(_libraries(host.cwd))) if "" in elements else (),
    )


def _provided(reading: Reading) -> Mapping[str, list[str]]:
    """Return library file name -> the environment's files of that name, as RECORDs list them."""
    found: dict[str, list[str]] = {}
    for path in index(reading).owners:
        # What links against an NVIDIA library names its version; the names without one are for compilers.
        if ".so" in path and (("/nvidia/" in path and ".so." in path) or "/torch/lib/" in path):
            found.setdefault(path.rpartition("/")[2], []).append(path)
    return found


def _folder(element: str, cwd: Path, provided: Mapping[str, list[str]]) -> LibraryFolder:
    path = cwd / element
    shadows = [name for name in sorted(_libraries(path) & provided.keys()) if _elsewhere(path / name, provided[name])]
    return LibraryFolder(element=element, path=str(path), present=path.is_dir(), shadows=tuple(shadows))


def _libraries(folder: Path) -> set[str]:
    try:
        return {name for name in os.listdir(folder) if _LIBRARY.search(name)}  # noqa: PTH208 - names only, and fast
    except OSError:
        return set()


def _elsewhere(path: Path, own: Iterable[str]) -> bool:
    try:
        return any(not path.samefile(other) for other in own if os.path.exists(other))  # noqa: PTH110 - a string
    except OSError:
        return False


def _preload(element: str) -> Preload:
    # A name with a token ($LIB, $ORIGIN) is left to ld.so.
    if "/" not in element or "$" in element:
        return Preload(element=element, problem="")
    try:
        head = read_prefix(element, 4)
    except FileNotFoundError:
        return Preload(element=element, problem="does not exist")
    except OSError as error:
        return Preload(element=element, problem=f"cannot be read: {error.strerror}")
    return Preload(element=element, problem="" if head == b"\x7fELF" else _NO_LIBRARY if head else "is empty")


def _cuda_home(environ: Mapping[str, str]) -> tuple[str, str]:
    if named := next(((value, name) for name in ("CUDA_HOME", "CUDA_PATH") if (value := environ.get(name))), None):
        return named
    nvcc = shutil.which("nvcc", path=environ.get("PATH", ""))
    return (str(Path(nvcc).parent.parent), "PATH") if nvcc else ("", "")


def _cuda_version(home: Path) -> str:
    """Return "13.0" from the toolkit's version.json, else from cuda.h."""
    try:
        stated = loads(read_regular(home / "version.json", _MAXIMUM_HEADER))["cuda"]["version"]
        return ".".join(str(stated).split(".")[:2])
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        pass  # older toolkits and distributions' packages have none
    try:
        match = _CUDA_VERSION.search(read_regular(home / "include/cuda.h", _MAXIMUM_HEADER).decode("utf-8", "replace"))
    except OSError:
        return ""
    return f"{int(match[1]) // 1000}.{int(match[1]) % 1000 // 10}" if match else ""
