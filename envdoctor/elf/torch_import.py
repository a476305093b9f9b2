"""Plays `import torch`: which shared objects it maps, from where, or the exact error it ends with.

The steps are those of torch/__init__.py (`_load_global_deps`, then `from torch._C import *`); which libraries it
preloads is read from that very file. What torch opens later, at first use on a GPU, is in `envdoctor.elf.lazy`.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from envdoctor.elf import lazy
from envdoctor.elf.disk import Disk
from envdoctor.elf.graph import LoadedObject, Loader, LoadFailure, LoadResult
from envdoctor.elf.lazy import LazyLibrary
from envdoctor.elf.search import SearchRoots
from envdoctor.elf.torch_init import ImportPlan, Preload, parse_init
from envdoctor.elf.wildcard import expand_wildcard
from envdoctor.errors import ElfError

FALLBACK_LIBRARIES = ("libc10.so", "libtorch_cpu.so", "libtorch_cuda.so", "libtorch_python.so")
MAX_INIT = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchTarget:
    """What the simulation is about: one torch, as one interpreter would import it."""

    torch: str
    """The package's folder."""
    sys_path: tuple[str, ...]
    """The interpreter's sys.path, in order: torch looks for nvidia/ in each entry."""
    executable: str
    """The interpreter; its symlinks are followed, as the kernel does."""
    cuda: str | None
    """torch.version.cuda, for example "12.8"; None for a CPU build."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportFailure:
    """What `import torch` raises."""

    exception: Literal["OSError", "ValueError", "ImportError", "ModuleNotFoundError"]
    message: str
    """str() of the exception, word for word."""
    stage: str
    """The label of the step that failed."""
    load: LoadFailure | None
    """The loader's side: the missing name, who asked, where it was looked for. None when a glob matched nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreloadNote:
    """One entry of torch's preload list, and what became of it."""

    pattern: str
    folder: str
    candidates: tuple[str, ...]
    """What the glob matched in the first sys.path entry with a match, in directory order. torch opens the first."""
    outcome: Literal["opened", "already loaded", "not found", "failed"]
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchImport:
    """The whole simulation."""

    objects: tuple[LoadedObject, ...]
    """Everything the process has mapped, in order: the program, its libraries, then torch's."""
    failure: ImportFailure | None
    """None when the import's shared objects all load. Symbols are another question."""
    preloads: tuple[PreloadNote, ...]
    lazy: tuple[LazyLibrary, ...]
    """What is opened only at first use, each tried in the state after the import; () when the import fails."""
    scopes: tuple[LoadResult, ...]
    """The dlopen calls that succeeded, in order, with the scope each one's symbols are bound in."""
    preload_errors: tuple[str, ...] = ()
    """What ld.so prints about LD_PRELOAD."""


class _Failed(Exception):  # noqa: N818 - control flow inside one simulation, never seen outside
    def __init__(self, failure: ImportFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def simulate_import(target: TorchTarget, roots: SearchRoots, disk: Disk | None = None) -> TorchImport:
    """Play `import torch` for the target. Raise ElfError when its `__init__.py` cannot be read."""
    run = _Run(target, Loader(roots, disk), parse_init(_init_text(target.torch)))
    failure: ImportFailure | None = None
    try:
        run.everything()
    except _Failed as failed:
        failure = failed.failure
    return TorchImport(
        objects=run.loader.objects,
        failure=failure,
        preloads=tuple(run.notes),
        lazy=() if failure else lazy.simulate(run.loader, target.torch, target.cuda),
        scopes=tuple(run.scopes),
        preload_errors=run.loader.preload_errors,
    )


def missing_libraries(target: TorchTarget, roots: SearchRoots, disk: Disk | None = None) -> tuple[LoadFailure, ...]:
    """Return everything the import would miss, one failure a name, in the order ld.so would come to them.

    The import itself ends at the first; mending that one alone shows the next. Raise ElfError as `simulate_import`.
    """
    run = _Run(target, Loader(roots, disk, tolerant=True), parse_init(_init_text(target.torch)))
    steps = (run.everything, run.extension) if run.plan.global_deps else (run.everything,)
    for step in steps:
        try:
            step()
        except _Failed as failed:
            if failed.failure.load is not None:
                run.loader.passed_over.append(failed.failure.load)
    return tuple({failure.name: failure for failure in reversed(run.loader.passed_over)}.values())[::-1]


def _init_text(torch: str) -> str:
    path = os.path.join(torch, "__init__.py")
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(MAX_INIT)
    except OSError as error:
        raise ElfError(f"{path}: cannot be read: {error.strerror}") from error


class _Run:
    """The state of one simulated import."""

    def __init__(self, target: TorchTarget, loader: Loader, plan: ImportPlan) -> None:
        self.target = target
        self.loader = loader
        self.plan = plan
        self.notes: list[PreloadNote] = []
        self.scopes: list[LoadResult] = []

    def everything(self) -> None:
        started = self.loader.start(self.target.executable)
        if started.failure is not None:
            raise _Failed(_os_error(started.failure, "program"))
        self.scopes.append(started)
        if self.plan.global_deps:
            self._global_deps()
            self.extension()
        else:
            self._plain_libraries()

    def _global_deps(self) -> None:
        path = os.path.join(self.target.torch, "lib", "libtorch_global_deps.so")
        first = self._open(path, "libtorch_global_deps.so", global_=True)
        if first is None:
            self._preload_after_success()
            return
        names = [item.pattern.split(".", 1)[0] for item in self.plan.after_failure if item.required]
        if not any(name in first.message for name in names):
            raise _Failed(_os_error(first, "libtorch_global_deps.so"))
        for item in self.plan.after_failure:
            failed = self._preload(item)
            if failed is not None:
                raise _Failed(failed)
        second = self._open(path, "libtorch_global_deps.so", global_=True)
        if second is not None:
            raise _Failed(_os_error(second, "libtorch_global_deps.so"))

    def _preload_after_success(self) -> None:
        if self.plan.only_cuda and self.target.cuda not in self.plan.only_cuda:
            return
        if not any(self.plan.maps_needle in item.real for item in self.loader.objects):
            return
        for item in self.plan.after_success:
            # torch swallows every exception here, so the first library that is missing ends the preloading unnoticed.
            if self._preload(item) is not None:
                return

    def _preload(self, item: Preload) -> ImportFailure | None:
        candidates = self._candidates(item)
        if not candidates:
            self.notes.append(_note(item, (), "not found"))
            message = f"{item.pattern} not found in the system path {list(self.target.sys_path)}"
            failure = ImportFailure(exception="ValueError", message=message, stage="preload", load=None)
            return failure if item.required else None
        known = len(self.loader.objects)
        failed = self._open(candidates[0], "preload", global_=False)
        if failed is not None:
            self.notes.append(_note(item, candidates, "failed", failed.message))
            return _os_error(failed, "preload")
        self.notes.append(_note(item, candidates, "already loaded" if len(self.loader.objects) == known else "opened"))
        return None

    def _candidates(self, item: Preload) -> tuple[str, ...]:
        for entry in self.target.sys_path:
            folders = [os.path.join(entry, "nvidia", item.folder, "lib")]
            if self.plan.major_folder and self.target.cuda:
                folders.append(os.path.join(entry, "nvidia", f"cu{self.target.cuda.split('.')[0]}", "lib"))
            if self.plan.plain_folder:
                folders.append(os.path.join(entry, item.folder, "lib"))
            found = [path for folder in folders for path in self._glob(folder, item.pattern)]
            if found:
                return tuple(found)
        return ()

    def _glob(self, folder: str, pattern: str) -> Iterable[str]:
        return expand_wildcard(folder, pattern, self.loader.roots.cwd, self.loader.disk)

    def extension(self) -> None:
        names = [
            name
            for name in self.loader.disk.names(self.target.torch)
            if name.startswith("_C.") and name.endswith(".so")
        ]
        if not names:
            message = "No module named 'torch._C'"
            raise _Failed(ImportFailure(exception="ModuleNotFoundError", message=message, stage="torch._C", load=None))
        # "_C.cpython-312-x86_64-linux-gnu.so" comes before "_C.abi3.so" and "_C.so" in the interpreter's suffixes.
        chosen = min(names, key=lambda name: ("cpython-" not in name, ".abi3." not in name, name))
        failed = self._open(os.path.join(self.target.torch, chosen), "torch._C", global_=False)
        if failed is not None:
            raise _Failed(ImportFailure(exception="ImportError", message=failed.message, stage="torch._C", load=failed))

    def _plain_libraries(self) -> None:
        for name in FALLBACK_LIBRARIES:
            path = os.path.join(self.target.torch, "lib", name)
            if self.loader.disk.identity(path) is None:
                continue
            failed = self._open(path, name, global_=True)
            if failed is not None:
                raise _Failed(ImportFailure(exception="ImportError", message=failed.message, stage=name, load=failed))

    def _open(self, path: str, label: str, *, global_: bool) -> LoadFailure | None:
        result = self.loader.open(path, global_=global_, label=label)
        if result.failure is None:
            self.scopes.append(result)
        return result.failure


def _os_error(failure: LoadFailure, stage: str) -> ImportFailure:
    return ImportFailure(exception="OSError", message=failure.message, stage=stage, load=failure)


def _note(
    item: Preload,
    candidates: tuple[str, ...],
    outcome: Literal["opened", "already loaded", "not found", "failed"],
    message: str = "",
) -> PreloadNote:
    return PreloadNote(
        pattern=item.pattern, folder=item.folder, candidates=candidates, outcome=outcome, message=message
    )
