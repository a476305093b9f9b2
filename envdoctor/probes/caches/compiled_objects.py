"""Objects that were compiled at run time and are found again by name: torch's C++ extensions and FlashInfer's kernels.

Their folders are named after the Python and CUDA versions at most, so an object built against another torch is loaded
as it is. Inductor's and Triton's caches are keyed by content and are never wrong in this way; they are not read.
"""

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

from envdoctor.elf.reader import read as read_elf
from envdoctor.errors import ElfError
from envdoctor.facts.context import Reading
from envdoctor.facts.regular_file import read_prefix
from envdoctor.model.frozen import frozen
from envdoctor.model.pattern import pattern
from envdoctor.probes.caches.compile_caches import locate
from envdoctor.probes.loading.torch_build import TorchBuild
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.probes.venv.interpreter import Interpreter

_MAXIMUM_OBJECTS = 256
_MAXIMUM_DEPTH = 6
_BUILD_FILE = 64 * 1024
_NINJA = "build.ninja"
_MADE = frozenset({_NINJA, ".ninja_log", ".ninja_deps", "lock", "main.cpp", "cuda.cu", "sycl.sycl"})
"""What a build leaves beside objects; the sources are those that `load_inline` writes."""
_INCLUDE = pattern(r"-(?:isystem|I)\s*(\S+/torch)/include(?=\s)")
_CUDA_MAJOR = pattern(r"^lib(?:cudart|cublas|cublasLt|nvrtc|nvJitLink)\.so\.(\d+)")


@frozen
class CompiledObject:
    """One shared object in a cache."""

    kind: str
    """torch_extensions or flashinfer."""
    path: str
    needed: tuple[str, ...]
    """DT_NEEDED."""
    cuda_major: str
    """By the CUDA libraries it needs; empty when it needs none whose name tells."""
    built_for: str
    """The torch package whose headers its build.ninja names; empty when there is none."""
    for_this_torch: bool
    """False when `built_for` is another package than the environment's."""
    alone: bool = False
    """Its folder holds build.ninja and nothing but what a build makes: none of the user's sources."""


@frozen
class CompiledObjects:
    """What this torch would load from those caches."""

    objects: tuple[CompiledObject, ...]
    unreadable: tuple[str, ...]
    read_all: bool
    """False when there were more than could be looked at quickly."""


def probe(reading: Reading) -> CompiledObjects:
    """Read the dynamic section of each object in the folders that this torch uses."""
    objects: list[CompiledObject] = []
    unreadable: list[str] = []
    build = reading.fact(TorchBuild)
    # One more than is read tells that there are more; a cache of thousands is not walked to its end.
    paths = list(itertools.islice(_paths(reading, build), _MAXIMUM_OBJECTS + 1)) if build.present else []
    for kind, path in paths[:_MAXIMUM_OBJECTS]:
        try:
            needed = read_elf(path).needed
        except ElfError as error:
            unreadable.append(error.message)
            continue
        majors = {match[1] for name in needed if (match := _CUDA_MAJOR.match(name))}
        built_for = _built_for(Path(path).parent)
        objects.append(
            CompiledObject(
                kind=kind,
                path=path,
                needed=needed,
                cuda_major=majors.pop() if len(majors) == 1 else "",
                built_for=built_for,
                for_this_torch=not built_for or _same(Path(built_for), Path(build.folder)),
                alone=_is_alone(Path(path).parent),
            )
        )
    return CompiledObjects(
        objects=tuple(objects), unreadable=tuple(unreadable), read_all=len(paths) <= _MAXIMUM_OBJECTS
    )


def _paths(reading: Reading, build: TorchBuild) -> Iterator[tuple[str, str]]:
    folders = {kind: (path, via) for kind, path, via in locate(reading.host)}
    extensions, via = folders["torch_extensions"]
    if via != "TORCH_EXTENSIONS_DIR":
        # torch.utils.cpp_extension._get_build_directory: "py312_cu128", "py313t_cpu"
        python = reading.fact(Interpreter).folder.removeprefix("python").replace(".", "")
        extensions /= f"py{python}_{'cu' + build.cuda.replace('.', '') if build.cuda else 'cpu'}"
    yield from (("torch_extensions", path) for path in _objects(str(extensions), 0))
    installed = reading.fact(Distributions).active("flashinfer-python")
    if installed is not None:
        # flashinfer/jit/env.py keeps a folder for each of its versions.
        yield from (("flashinfer", path) for path in _objects(str(folders["flashinfer"][0] / installed.version), 0))


def _objects(folder: str, depth: int) -> Iterator[str]:
    """Yield the objects in a folder of their own name, where they are made and looked for (NAME/NAME.so, NAME_v1.so).

    What else is there is somebody's own, and nobody is told to delete its folder.
    """
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        own = depth > 0 and entry.name.endswith(".so") and entry.name.startswith(os.path.basename(folder))  # noqa: PTH119
        if own and entry.is_file(follow_symlinks=False):
            yield entry.path
        elif entry.is_dir(follow_symlinks=False) and depth < _MAXIMUM_DEPTH:
            yield from _objects(entry.path, depth + 1)


def _same(one: Path, other: Path) -> bool:
    try:
        return one == other or one.samefile(other)
    except OSError:
        return False


def _is_alone(folder: Path) -> bool:
    try:
        names = os.listdir(folder)  # noqa: PTH208 - names only
    except OSError:
        return False
    return _NINJA in names and all(name in _MADE or name.endswith((".o", ".so", ".d")) for name in names)


def _built_for(folder: Path) -> str:
    try:
        text = read_prefix(folder / _NINJA, _BUILD_FILE).decode("utf-8", "replace")
    except OSError:
        return ""
    match = _INCLUDE.search(text)
    return match[1] if match else ""
