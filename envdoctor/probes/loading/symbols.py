"""Whether `import torch`, and after it every extension module, finds its libraries, their versions and its symbols.

Each object is opened in a copy of the loader as the import of torch leaves it, the way Python would: with every symbol
bound at once. Nothing is executed. What was found is remembered for as long as no file or folder that decided it
changes, so that the next check costs a stat for each.
"""

import time
from collections import Counter
from collections.abc import Iterable, Iterator

from envdoctor.catalog.cudalibs import majors_of
from envdoctor.elf.reader import ElfObject
from envdoctor.errors import ElfError, ProbeError
from envdoctor.facts.context import Reading
from envdoctor.loader.binding import Binder
from envdoctor.loader.disk import Disk
from envdoctor.loader.graph import Loader
from envdoctor.loader.search import SearchRoots
from envdoctor.loader.torch_import import TorchImport, play_import
from envdoctor.model.frozen import frozen, replace
from envdoctor.model.pattern import pattern
from envdoctor.probes.loading.extension_modules import importable, is_tagged
from envdoctor.probes.loading.load_faults import FaultMaker, LoadFault
from envdoctor.probes.loading.loader import decided_by, loader_memo, loader_roots, read_beside, torch_target
from envdoctor.probes.loading.numpy_abi import NumpyUser, compiled_for_numpy_1
from envdoctor.probes.loading.opened_by_name import not_found
from envdoctor.probes.loading.torch_build import TorchBuild
from envdoctor.probes.venv.interpreter import Interpreter
from envdoctor.probes.venv.owners import Owners
from envdoctor.probes.venv.records import index

_SHARED = pattern(r"\.so(?:\.\d+)*$")
_LINKS_TORCH = pattern(r"lib(?:c10|torch|c10_cuda|torch_\w+)\.so$")
_DIGITS = pattern(r"\d+")
_MAXIMUM_OBJECTS = 4000


@frozen
class CudaUser:
    """An object outside of torch and NVIDIA's own distributions that is linked against one CUDA major."""

    path: str
    """Relative to the prefix."""
    owner: str
    owner_version: str
    major: str
    needed: tuple[str, ...]
    """The sonames in its DT_NEEDED that tell the major."""
    links_torch: bool
    module: bool
    """True for what Python imports; False for a library that something opens."""


@frozen
class Reached:
    """A library of this environment that an object finds through LD_LIBRARY_PATH alone."""

    path: str
    """The object, relative to the prefix."""
    owner: str
    owner_version: str
    soname: str
    file: str
    """Where it is found, relative to the prefix."""


@frozen
class Symbols:
    """What binding found."""

    looked: bool
    reason: str
    """Why nothing was looked at; empty when it was."""
    objects: int
    """Extension modules and libraries that were opened, apart from the import of torch."""
    left_out: int
    """Those that could not be judged, because `import torch` fails before them or because there are too many."""
    torch_abi: str
    """"cxx11" or "pre-cxx11", as libc10.so's own symbols tell; empty when they do not."""
    faults: tuple[LoadFault, ...]
    cuda_users: tuple[CudaUser, ...]
    by_variable: tuple[Reached, ...]
    unreadable: tuple[str, ...]
    numpy_1: tuple[NumpyUser, ...] = ()
    """Extension modules compiled for numpy 1, where numpy 2 or newer is installed."""


NOTHING = Symbols(
    looked=False,
    reason="",
    objects=0,
    left_out=0,
    torch_abi="",
    faults=(),
    cuda_users=(),
    by_variable=(),
    unreadable=(),
)


def probe(reading: Reading) -> Symbols:
    """Return what an earlier run remembered, else open everything. Raises ProbeError as the library probe does."""
    python = reading.fact(Interpreter)
    if not python.resolved:
        return replace(NOTHING, reason="the interpreter does not exist")
    started = time.time_ns()
    paths = _candidates(reading)
    memo = loader_memo(reading, "symbols")
    remembered = memo.load(Symbols)
    if remembered is not None:
        return remembered
    if reading.options.only_remembered:
        return replace(NOTHING, reason="no earlier check of these files is remembered")
    disk = Disk()
    try:
        opening = _Opening(reading, disk, python)
        made = opening.all(paths)
    except ElfError as error:
        raise ProbeError(f"the loader could not be simulated: {error.message}") from error
    seen, anywhere = decided_by(disk, opening.roots, {*paths, *read_beside(reading)})
    memo.save(made, seen, started, anywhere=anywhere)
    return made


def _candidates(reading: Reading) -> list[str]:
    """Return every shared object that a RECORD lists, outside of torch's own folder."""
    torch = reading.fact(TorchBuild).folder + "/"
    found = [path for path in index(reading).shared_objects if _SHARED.search(path)]
    return sorted(path for path in found if torch == "/" or not path.startswith(torch))


class _Opening:
    """One round of opening everything."""

    def __init__(self, reading: Reading, disk: Disk, python: Interpreter) -> None:
        self.reading = reading
        self.disk = disk
        self.python = python
        self.binder = Binder()
        self.owners = Owners(reading)
        self.unreadable: list[str] = []
        self.modules: dict[str, bool] = {}
        self.left_out = 0
        self.roots = loader_roots(reading, disk)

    def all(self, paths: list[str]) -> Symbols:
        played, loader = self._start(self.roots, self.binder)
        objects = {path: elf for path in paths if (elf := self._read(path)) is not None}
        maker = FaultMaker(self.reading, self.disk, self.owners, tuple(objects))
        faults = [] if played is None else [maker.of_import(item, played) for item in _symbolic(played)]
        broken = played is not None and played.failure is not None
        chosen = [path for path, elf in objects.items() if self._is_opened(path, elf)]
        # By its name Python would import it, and the loader would refuse it: no object, or one for another machine.
        refused = [path for path in paths if path not in objects and self._is_ours(path)]
        chosen += refused
        self.left_out = max(0, len(chosen) - _MAXIMUM_OBJECTS)
        reached: list[Reached] = []
        opened = 0
        plain: list[Loader] = []
        for path in chosen[:_MAXIMUM_OBJECTS]:
            if broken and path in objects and _links(objects[path]):
                self.left_out += 1
                continue
            opened += 1
            fork = loader.fork()
            fork.tolerant = True
            result = fork.open(path)
            if result.failure is not None:
                made = maker.of_object(path, result, module=self._is_module(path))
                faults.append(replace(made, links=path in objects and _links(objects[path])))
            elif self.roots.library_path and any(item.found_via == "LD_LIBRARY_PATH" for item in result.opened):
                if not plain:
                    plain.append(self._start(replace(self.roots, library_path=()), None)[1])
                reached += self._by_variable(path, plain[0])
        faults += not_found(self.reading, self.disk, maker)
        return Symbols(
            looked=True,
            reason="",
            objects=opened,
            left_out=self.left_out,
            torch_abi=maker.torch_abi(),
            faults=tuple(_by_family(faults, [self.owners.relative(path) for path in chosen])),
            cuda_users=tuple(self._cuda_users(objects)),
            by_variable=tuple(reached),
            unreadable=(*self.unreadable, *self.binder.unreadable.values()),
            numpy_1=tuple(compiled_for_numpy_1(self.reading, self._for_python(objects), self.owners)),
        )

    def _start(self, roots: SearchRoots, binder: Binder | None) -> tuple[TorchImport | None, Loader]:
        target = torch_target(self.reading)
        if target is not None:
            return play_import(target, roots, self.disk, binder=binder)
        loader = Loader(roots, self.disk, binder=binder)
        loader.start(self.python.executable)
        return None, loader

    def _read(self, path: str) -> ElfObject | None:
        # What is gone is told by the files' own probe; a .so of another machine or of text is none for this loader.
        if self.disk.identity(path) is None:
            return None
        try:
            elf = self.disk.elf(path)
        except ElfError as error:
            self.unreadable.append(error.message)
            return None
        return elf if elf.dynamic and (elf.bits, elf.machine) == (self.roots.bits, self.roots.machine) else None

    def _is_ours(self, path: str) -> bool:
        return is_tagged(path.rpartition("/")[2], self.python) and self.disk.identity(path) is not None

    def _is_module(self, path: str) -> bool:
        if path not in self.modules:
            self.modules[path] = self._imported(path)
        return self.modules[path]

    def _imported(self, path: str) -> bool:
        """Tell what Python imports by its init function (PEP 489): kernels and operators are `.so` files too."""
        name = path.rpartition("/")[2]
        identity = self.disk.identity(path)
        if identity is None or not importable(name, self.python):
            return False
        try:
            self.disk.elf(path)
        except ElfError:
            # The loader refuses it; that Python asks it to is told by its name alone.
            return is_tagged(name, self.python)
        table = self.binder.symbols(path, identity)
        return table is not None and table.defines(f"PyInit_{name.partition('.')[0]}")

    def _is_opened(self, path: str, elf: ElfObject) -> bool:
        # NVIDIA's own plugins (MPI, UCX, InfiniBand) are opened where their counterpart is installed, else never.
        name = path.rpartition("/")[2]
        named = importable(name, self.python) and (not name.startswith("lib") or self._is_module(path))
        return (named or _links(elf)) and not self._of_nvidia(path)

    def _for_python(self, objects: Iterable[str]) -> dict[str, bool]:
        """Return the extension modules, and the libraries that are the Python side of others by their names."""
        torch = self.reading.fact(TorchBuild).folder
        libraries = [path for path in objects if "_python" in path.rpartition("/")[2] and not self._is_module(path)]
        return {
            **{path: True for path in objects if self._is_module(path)},
            **dict.fromkeys([*libraries, *([f"{torch}/lib/libtorch_python.so"] if torch else [])], False),
        }

    def _of_nvidia(self, path: str) -> bool:
        return "-packages/nvidia/" in self.owners.relative(path)

    def _by_variable(self, path: str, plain: Loader) -> Iterator[Reached]:
        fork = plain.fork()
        fork.tolerant = True
        owner = self.owners.of(path)
        for failure in fork.open(path).missing:
            file = self._of_this_environment(failure.name)
            if failure.kind == "not found" and file:
                yield Reached(
                    path=self.owners.relative(path),
                    owner=owner.name if owner else "",
                    owner_version=owner.version if owner else "",
                    soname=failure.name,
                    file=file,
                )

    def _of_this_environment(self, soname: str) -> str:
        found = (path for path in index(self.reading).owners if path.endswith(f"/{soname}"))
        return next((self.owners.relative(path) for path in found if self.disk.identity(path)), "")

    def _cuda_users(self, objects: dict[str, ElfObject]) -> Iterator[CudaUser]:
        torchs = self.reading.fact(TorchBuild).cuda_major
        for path, elf in objects.items():
            telling = {name: majors for name in elf.needed if (majors := majors_of(name))}
            possible = set.intersection(*map(set, telling.values())) if telling else set()
            owner = self.owners.of(path)
            # libcusparse.so.12 is of CUDA 12 and 13: it tells a major only where torch's is neither.
            if owner is None or self._of_nvidia(path) or not possible or (len(possible) > 1 and torchs in possible):
                continue
            yield CudaUser(
                path=self.owners.relative(path),
                owner=owner.name,
                owner_version=owner.version,
                major=max(possible),
                needed=tuple(name for name, majors in telling.items() if len(majors) == 1 or torchs not in majors),
                links_torch=any(_LINKS_TORCH.match(name) for name in elf.needed),
                module=self._is_module(path),
            )


def _by_family(faults: list[LoadFault], opened: list[str]) -> Iterator[LoadFault]:
    """Leave out one of several builds of the same thing, of which another opens; name the family where none does.

    bitsandbytes brings a library for each CUDA version, torchcodec one for each FFmpeg, and each opens what fits.
    torchaudio opens libtorio_ffmpeg6.so, then the module _torio_ffmpeg6.so that needs it: where some of the libraries
    fail, their modules say no more. What importing the package certainly raises is no such choice.
    """
    failed = {fault.path for fault in faults}
    fine = {_family(path) for path in opened if path not in failed}
    sizes = Counter(map(_family, failed))
    built_on = {_family(one.path) for one in faults if any(_family(item.path) in sizes for item in one.has_it)}
    for fault in faults:
        family = _family(fault.path)
        if not fault.path or fault.opening == "at import":
            yield fault
        elif fault.kind == "not found" and sizes[family] > 1 and family in built_on:
            continue
        elif family not in fine:
            yield replace(fault, family=family if sizes[family] > 1 else "")


def _family(path: str) -> str:
    """Return a path with a # for every number in it, which is what builds of one thing differ in."""
    return _DIGITS.sub("#", path)


def _links(elf: ElfObject) -> bool:
    return any(_LINKS_TORCH.match(name) or majors_of(name) for name in elf.needed)


def _symbolic(played: TorchImport) -> list[int]:
    """Return which failures of the import are of versions and symbols: `Libraries` has the missing files."""
    kinds = ("version not found", "undefined symbol")
    return [at for at, failure in enumerate(played.missing) if failure.kind in kinds]
