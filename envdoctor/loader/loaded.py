"""What the loader model reports: mapped objects, failures, and the result of one dlopen."""

from typing import Literal

from envdoctor.elf.reader import DF_1_PIE, ET_DYN, ET_EXEC, ElfObject
from envdoctor.loader.search import Attempt, FoundVia
from envdoctor.model.frozen import frozen

FailureKind = Literal[
    "not found", "wrong ELF class", "wrong machine", "cannot be loaded", "version not found", "undefined symbol"
]
NO_SUCH_FILE = "cannot open shared object file: No such file or directory"


@frozen
class LoadedObject:
    """One mapped object and how it came there."""

    path: str
    """The path ld.so opened it by; $ORIGIN is its folder."""
    real: str
    """The same with symlinks resolved, as /proc/PID/maps shows it."""
    elf: ElfObject
    requested_as: str
    requester: str | None
    """The path of the object whose DT_NEEDED (or dlopen call) brought it in; None for the program."""
    label: str
    """The step of the caller's story in which it was mapped, for example "import torch._C"."""
    tried: tuple[Attempt, ...]
    """Where it was looked for, in order; the last one is where it was found."""

    @property
    def found_via(self) -> FoundVia:
        """How it was found."""
        return self.tried[-1].via

    @property
    def rpath_of(self) -> str:
        """The path of the object whose DT_RPATH or DT_RUNPATH led here, or ""."""
        return self.tried[-1].of

    @property
    def soname(self) -> str | None:
        """Its DT_SONAME."""
        return self.elf.soname


@frozen
class LoadFailure:
    """Why a dlopen fails."""

    kind: FailureKind
    name: str
    """The name that could not be mapped, the file that lacks the version, or the symbol that nothing defines."""
    requester: str | None
    """The path of the object that asked for it; None when it is the very name given to dlopen."""
    message: str
    """What dlerror() says, word for word, where ld.so would say it."""
    tried: tuple[Attempt, ...] = ()
    version: str = ""
    """For "version not found" and "undefined symbol": the version name, if one was asked."""


@frozen
class LoadResult:
    """What one dlopen does."""

    name: str
    opened: tuple[LoadedObject, ...]
    """The objects it newly mapped, in breadth-first order; () after a failure, which unmaps them."""
    root: LoadedObject | None
    """The object the name stands for, new or already there; None after a failure."""
    scope: tuple[LoadedObject, ...] = ()
    """Where its symbols are looked for: the global scope, then its own breadth-first list."""
    failure: LoadFailure | None = None
    missing: tuple[LoadFailure, ...] = ()
    """Every failure met, the fatal one first. More than one only from a tolerant loader."""


def refusal(elf: ElfObject) -> str | None:
    """Return why dlopen refuses an object it could read, in glibc's words; None when it does not."""
    if elf.kind not in {ET_DYN, ET_EXEC}:
        return "only ET_DYN and ET_EXEC can be loaded"
    if elf.kind == ET_EXEC:
        return "cannot dynamically load executable"
    if not elf.dynamic:
        return "object file has no dynamic section"
    return "cannot dynamically load position-independent executable" if elf.flags_1 & DF_1_PIE else None
