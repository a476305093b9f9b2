"""Plays `import torch`: which shared objects it maps, from where, or the exact error it ends with.

The steps are those of torch/__init__.py (`_load_global_deps`, then `from torch._C import *`); which libraries it
preloads is read from that very file. What torch opens later, at first use on a GPU, is in `envdoctor.loader.lazy`.
"""

import fnmatch
import os
from collections.abc import Iterator
from typing import Literal

from envdoctor.elf.image import open_regular
from envdoctor.errors import ElfError
from envdoctor.loader import lazy
from envdoctor.loader.binding import Binder
from envdoctor.loader.disk import Disk
from envdoctor.loader.graph import Loader
from envdoctor.loader.lazy import LazyLibrary
from envdoctor.loader.loaded import LoadedObject, LoadFailure, LoadResult
from envdoctor.loader.search import SearchRoots
from envdoctor.loader.torch_init import ImportPlan, TorchPreload, parse_init
from envdoctor.model.frozen import frozen

FALLBACK_LIBRARIES = ("libc10.so", "libtorch_cpu.so", "libtorch_cuda.so", "libtorch_python.so")
MAX_INIT = 4 << 20
ExceptionName = Literal["OSError", "ValueError", "ImportError", "ModuleNotFoundError"]
Outcome = Literal["opened", "already loaded", "not found", "failed"]


@frozen
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


@frozen
class ImportFailure:
    """What `import torch` raises."""

    exception: ExceptionName
    message: str
    """str() of the exception, word for word."""
    stage: str
    """The label of the step that failed."""
    load: LoadFailure | None
    """The loader's side: the missing name, who asked, where it was looked for. None when a glob matched nothing."""


@frozen
class PreloadNote:
    """One entry of torch's preload list, and what became of it."""

    pattern: str
    folder: str
    candidates: tuple[str, ...]
    """What the glob matched in the first sys.path entry with a match, in directory order. torch opens the first."""
    outcome: Outcome
    message: str = ""


@frozen
class TorchImport:
    """The whole simulation."""

    objects: tuple[LoadedObject, ...]
    """Everything that gets mapped, in order: the program, its libraries, then torch's. When the import fails, this goes
    on past each failure, so that it holds every file that would be used; see `mapped` for what really stays."""
    mapped: tuple[LoadedObject, ...]
    """What the process has mapped when the import ends, be it in an error."""
    failure: ImportFailure | None
    """None when the import's shared objects all load. Symbols are another question."""
    missing: tuple[LoadFailure, ...]
    """Every failure on the way, that of `failure` first: what would be reported next once the one before is fixed."""
    preloads: tuple[PreloadNote, ...]
    lazy: tuple[LazyLibrary, ...]
    """What is opened only at first use, each tried in the state after the import (or where it would have gone)."""
    scopes: tuple[LoadResult, ...]
    """The dlopen calls that succeeded, in order, with the scope each one's symbols are bound in."""
    preload_errors: tuple[str, ...] = ()
    """What ld.so prints about LD_PRELOAD."""


def simulate_import(
    target: TorchTarget, roots: SearchRoots, disk: Disk | None = None, *, binder: Binder | None = None
) -> TorchImport:
    """Play `import torch` for the target. With a binder, symbols are bound as well: slower, and finds mixed versions.

    Raise ElfError when torch's `__init__.py` cannot be read.
    """
    return play_import(target, roots, disk, binder=binder)[0]


def play_import(
    target: TorchTarget, roots: SearchRoots, disk: Disk | None = None, *, binder: Binder | None = None
) -> tuple[TorchImport, Loader]:
    """Play `import torch` and return the loader too, as the import leaves it.

    Fork it for each extension module that is imported after torch: `loader.fork().open(path)` says what that would do.
    """
    memo = disk or Disk()
    plan = parse_init(_init_text(target.torch))
    run = _Run(target, Loader(roots, memo, binder=binder), plan)
    failure = next(run.steps(), None)
    survey = run
    if failure is not None:
        survey = _Run(target, Loader(roots, memo, tolerant=True, binder=binder), plan)
        for _ in survey.steps():
            pass
    played = TorchImport(
        objects=survey.loader.objects,
        mapped=run.loader.objects,
        failure=failure,
        missing=tuple(survey.missing),
        preloads=tuple(run.notes),
        lazy=lazy.simulate(survey.loader, target.torch, target.cuda, tuple(survey.missing)),
        scopes=tuple(run.scopes),
        preload_errors=run.loader.preload_errors,
    )
    return played, run.loader


def _init_text(torch: str) -> str:
    path = os.path.join(torch, "__init__.py")
    try:
        with open(open_regular(path), encoding="utf-8", errors="replace") as file:
            return file.read(MAX_INIT)
    except (ElfError, OSError) as error:
        told = error if isinstance(error, OSError) else error.__cause__
        reason = told.strerror if isinstance(told, OSError) else "not a regular file"
        raise ElfError(f"{path}: cannot be read: {reason}") from error


class _Run:
    """One simulated import. `steps` yields what it would raise: a real import ends at the first."""

    def __init__(self, target: TorchTarget, loader: Loader, plan: ImportPlan) -> None:
        self.target = target
        self.loader = loader
        self.plan = plan
        self.notes: list[PreloadNote] = []
        self.scopes: list[LoadResult] = []
        self.missing: list[LoadFailure] = []

    def steps(self) -> Iterator[ImportFailure]:
        yield from self._raised(self._keep(self.loader.start(self.target.executable)), "OSError", "program")
        if self.plan.global_deps:
            yield from self._global_deps()
            yield from self._extension()
        else:
            yield from self._plain_libraries()

    def _global_deps(self) -> Iterator[ImportFailure]:
        stage = "libtorch_global_deps.so"
        path = os.path.join(self.target.torch, "lib", stage)
        first = self._open(path, stage, global_=True)
        if first.failure is None:
            self._preload_after_success()
            return
        message = first.failure.message
        names = [item.pattern.split(".", 1)[0] for item in self.plan.after_failure if item.required]
        if not any(name in message for name in names):
            yield from self._raised(first, "OSError", stage)
            return
        for item in self.plan.after_failure:
            yield from self._preload(item)
        yield from self._raised(self._open(path, stage, global_=True), "OSError", stage)

    def _preload_after_success(self) -> None:
        if self.plan.only_cuda and self.target.cuda not in self.plan.only_cuda:
            return
        if not any(self.plan.maps_needle in item.real for item in self.loader.objects):
            return
        known = list(self.missing)
        for item in self.plan.after_success:
            # torch swallows every exception here, so the first library that is missing ends the preloading unnoticed.
            if next(self._preload(item), None) is not None and not self.loader.tolerant:
                break
        self.missing = known

    def _preload(self, item: TorchPreload) -> Iterator[ImportFailure]:
        candidates = self._candidates(item)
        if not candidates:
            self.notes.append(_note(item, (), "not found"))
            if item.required:
                message = f"{item.pattern} not found in the system path {list(self.target.sys_path)}"
                yield ImportFailure(exception="ValueError", message=message, stage="preload", load=None)
            return
        result = self._open(candidates[0], "preload")
        if result.failure is not None:
            self.notes.append(_note(item, candidates, "failed", result.failure.message))
        else:
            self.notes.append(_note(item, candidates, "opened" if result.opened else "already loaded"))
        yield from self._raised(result, "OSError", "preload")

    def _candidates(self, item: TorchPreload) -> tuple[str, ...]:
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

    def _glob(self, folder: str, pattern: str) -> tuple[str, ...]:
        return _expand_wildcard(folder, pattern, self.loader.roots.cwd, self.loader.disk)

    def _extension(self) -> Iterator[ImportFailure]:
        listing = self.loader.disk.names(self.target.torch)
        names = [name for name in listing if name.startswith("_C.") and name.endswith(".so")]
        if not names:
            message = "No module named 'torch._C'"
            yield ImportFailure(exception="ModuleNotFoundError", message=message, stage="torch._C", load=None)
            return
        # "_C.cpython-312-x86_64-linux-gnu.so" comes before "_C.abi3.so" and "_C.so" in the interpreter's suffixes.
        chosen = min(names, key=lambda name: ("cpython-" not in name, ".abi3." not in name, name))
        result = self._open(os.path.join(self.target.torch, chosen), "torch._C")
        yield from self._raised(result, "ImportError", "torch._C")

    def _plain_libraries(self) -> Iterator[ImportFailure]:
        for name in FALLBACK_LIBRARIES:
            path = os.path.join(self.target.torch, "lib", name)
            if self.loader.disk.identity(path) is not None:
                yield from self._raised(self._open(path, name, global_=True), "ImportError", name)

    def _open(self, path: str, label: str, *, global_: bool = False) -> LoadResult:
        return self._keep(self.loader.open(path, global_=global_, label=label))

    def _keep(self, result: LoadResult) -> LoadResult:
        if result.failure is None:
            self.scopes.append(result)
        known = {failure.message for failure in self.missing}
        self.missing += [failure for failure in result.missing if failure.message not in known]
        return result

    @staticmethod
    def _raised(result: LoadResult, exception: ExceptionName, stage: str) -> Iterator[ImportFailure]:
        for failure in result.missing:
            yield ImportFailure(exception=exception, message=failure.message, stage=stage, load=failure)


def _note(item: TorchPreload, candidates: tuple[str, ...], outcome: Outcome, message: str = "") -> PreloadNote:
    return PreloadNote(
        pattern=item.pattern, folder=item.folder, candidates=candidates, outcome=outcome, message=message
    )


def _expand_wildcard(folder: str, pattern: str, cwd: str, disk: Disk) -> tuple[str, ...]:
    """Return what `glob.glob(os.path.join(folder, pattern))` would for a process in `cwd`, in directory order.

    A folder name with a bracket or a star in it is a pattern to glob too: such a venv finds nothing, or another folder.
    """
    if any(sign in folder for sign in "*?["):  # glob.has_magic
        import glob  # noqa: PLC0415 - few folders have such a name

        return tuple(glob.glob(os.path.join(folder, pattern), root_dir=cwd))
    names = disk.names(os.path.join(cwd, folder))
    matched = fnmatch.filter((name for name in names if not name.startswith(".")), pattern)
    return tuple(os.path.join(folder, name) for name in matched)
