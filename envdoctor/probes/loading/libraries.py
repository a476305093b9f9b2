"""Which file would satisfy each shared library of `import torch`, and whose bytes those are.

What was found is remembered for as long as no file or folder that decided it changes.
"""

import os
import time
from collections.abc import Iterable
from typing import Literal

from envdoctor.catalog.cudalibs import owner_major
from envdoctor.errors import ElfError, ProbeError
from envdoctor.facts.context import Reading
from envdoctor.loader.disk import Disk
from envdoctor.loader.lazy import LazyLibrary
from envdoctor.loader.loaded import LoadedObject, LoadFailure
from envdoctor.loader.torch_import import TorchImport, simulate_import
from envdoctor.model.frozen import frozen, replace
from envdoctor.model.pattern import pattern
from envdoctor.probes.loading.loader import decided_by, loader_memo, loader_roots, read_beside, torch_target
from envdoctor.probes.loading.torch_build import TorchBuild
from envdoctor.probes.venv.owners import Owners
from envdoctor.probes.venv.records import index

Stage = Literal["program", "preload", "import", "lazy"]
_TOOLKIT_FOLDER = pattern(r"/cuda-(\d+)(?:\.\d+)?/")


@frozen
class Provider:
    """A shared object that would be mapped."""

    soname: str
    path: str
    """Relative to the prefix when inside it."""
    found_via: str
    """How the loader comes to it: "RPATH of …", "LD_LIBRARY_PATH", "ld.so.cache", "absolute path", …"""
    needed_by: str
    """The requester, relative to the prefix when inside it; empty when the program or a dlopen of Python asks."""
    stage: Stage
    """"program": mapped before any import. "lazy": opened at first use, not by the import."""
    owner: str
    """Distribution whose RECORD lists the path; the one whose bytes are there when several do; empty when none."""
    owner_version: str
    cuda_major: str
    """CUDA major of those bytes ("12"), as far as owner or path tell; empty when they do not."""
    asked_by: str = ""
    """An object of torch, or of torch's CUDA major, that has the soname in its DT_NEEDED; empty for none."""


@frozen
class Unresolved:
    """A library that cannot be mapped: nothing would satisfy its soname, or what is found cannot be loaded."""

    soname: str
    problem: str
    """What the loader would say, word for word."""
    needed_by: str
    stage: Stage
    used_when: str
    """For a lazy one: what would open it; empty for the import itself."""
    searched: tuple[str, ...]
    """Directories in the order tried."""
    by_name: bool = False
    """`needed_by` opens it with dlopen(); False: it has it in its DT_NEEDED."""
    lies_at: str = ""
    """A file of that name elsewhere in the environment, relative to the prefix; empty for none."""


@frozen
class Libraries:
    """The loader's work for `import torch`, predicted."""

    simulated: bool
    reason: str
    """Why it was not simulated; empty when it was."""
    import_error: str
    """What `import torch` would raise while loading; empty when every library would load."""
    providers: tuple[Provider, ...]
    unresolved: tuple[Unresolved, ...]
    notes: tuple[str, ...]
    """What ld.so would print about LD_PRELOAD, and preloads that torch gives up silently."""


def probe(reading: Reading) -> Libraries:
    """Play `import torch` from the files. Raises ProbeError when a file it depends on cannot be read."""
    target = torch_target(reading)
    if target is None:
        reason = "the interpreter does not exist" if reading.fact(TorchBuild).present else "torch is not installed"
        return Libraries(simulated=False, reason=reason, import_error="", providers=(), unresolved=(), notes=())
    started = time.time_ns()
    memo = loader_memo(reading, "libraries")
    remembered = memo.load(Libraries)
    if remembered is not None:
        return remembered
    disk = Disk()
    try:
        roots = loader_roots(reading, disk)
        played = simulate_import(target, roots, disk)
    except ElfError as error:
        raise ProbeError(f"the loader could not be simulated: {error.message}") from error
    made = _Section(reading).of(played)
    if not reading.options.only_remembered:
        seen, anywhere = decided_by(disk, roots, read_beside(reading))
        # What is unresolved names the folders that were searched; the current one is another next time.
        named = {folder.rstrip("/") for item in made.unresolved for folder in item.searched}
        memo.save(made, seen, started, anywhere=anywhere and roots.cwd.rstrip("/") not in named)
    return made


class _Section:
    """Turns the loader's objects into facts about this environment's distributions."""

    def __init__(self, reading: Reading) -> None:
        self.reading, self.owners = reading, Owners(reading)
        self.build = reading.fact(TorchBuild)

    def of(self, played: TorchImport) -> Libraries:
        providers = [self._provider(item, _stage(item)) for item in played.objects[1:]]
        for lazy in played.lazy:
            providers += [self._provider(item, "lazy") for item in lazy.result.opened]
        mapped = (*played.objects[1:], *(item for lazy in played.lazy for item in lazy.result.opened))
        asked = self._asked(zip(mapped, providers, strict=True))
        providers = [replace(item, asked_by=asked.get(item.soname, "")) for item in providers]
        unresolved = [self._unresolved(failure) for failure in played.missing]
        unresolved += [self._lazily(lazy) for lazy in played.lazy if lazy.result.failure and not lazy.optional]
        return Libraries(
            simulated=True,
            reason="",
            import_error=played.failure.message if played.failure else "",
            providers=tuple({(item.soname, item.path): item for item in reversed(providers)}.values())[::-1],
            unresolved=tuple(unresolved),
            notes=(*played.preload_errors, *(note.message for note in played.preloads if note.outcome == "failed")),
        )

    def _provider(self, item: LoadedObject, stage: Stage) -> Provider:
        owner = self.owners.of(item.path, item.real)
        toolkit = _TOOLKIT_FOLDER.search(item.real)
        major = owner_major(owner.name, owner.version) if owner else (toolkit[1] if toolkit else None)
        led_by = f" of {os.path.basename(item.rpath_of)}" if item.rpath_of else ""  # noqa: PTH119 - a string path
        return Provider(
            soname=item.soname or os.path.basename(item.path),  # noqa: PTH119 - a string path
            path=self.owners.relative(item.path),
            found_via=f"{item.found_via}{led_by}",
            needed_by=self.owners.relative(item.requester) if item.requester else "",
            stage=stage,
            owner=owner.name if owner else "",
            owner_version=owner.version if owner else "",
            cuda_major=major or "",
        )

    def _asked(self, found: Iterable[tuple[LoadedObject, Provider]]) -> dict[str, str]:
        """Return soname -> the first object that needs it, of those that belong to torch's own CUDA major."""
        asked: dict[str, str] = {}
        for item, provider in found:
            ours = item.path.startswith(f"{self.build.folder}/") or provider.cuda_major == self.build.cuda_major
            for soname in item.elf.needed if ours else ():
                asked.setdefault(soname, provider.path)
        return asked

    def _lies_at(self, soname: str) -> str:
        found = (path for path in index(self.reading).owners if path.endswith(f"/{soname}"))
        return next((self.owners.relative(path) for path in found if os.path.isfile(path)), "")  # noqa: PTH113 - string paths

    def _unresolved(self, failure: LoadFailure, stage: Stage = "import", used_when: str = "") -> Unresolved:
        return Unresolved(
            soname=failure.name,
            problem=failure.message,
            needed_by=self.owners.relative(failure.requester) if failure.requester else "",
            stage=stage,
            used_when=used_when,
            searched=tuple(dict.fromkeys(attempt.directory for attempt in failure.tried)),
            lies_at=self._lies_at(failure.name) if failure.kind == "not found" else "",
        )

    def _lazily(self, lazy: LazyLibrary) -> Unresolved:
        assert lazy.result.failure is not None  # noqa: S101 - the caller chose the failed ones
        made = self._unresolved(lazy.result.failure, "lazy", lazy.when)
        # One that has no requester was opened by name.
        return made if made.needed_by else replace(made, needed_by=self.owners.relative(lazy.opener), by_name=True)


def _stage(item: LoadedObject) -> Stage:
    if item.label in ("program", "LD_PRELOAD"):
        return "program"
    return "preload" if item.label == "preload" else "import"
