"""Answers to `envdoctor why`: where something of an environment comes from, and who depends on it."""

from typing import Literal

from envdoctor.model.frozen import frozen

LibraryState = Literal["loaded", "first use", "missing", "not used"]


@frozen
class RecordHolder:
    """A distribution that has a path in its RECORD."""

    name: str
    version: str
    holds: bool = True
    """False where the bytes on disk are known to be another holder's."""


@frozen
class SearchedPlace:
    """One place that was looked at for a library, in the loader's order."""

    via: str
    """"RPATH of libtorch_cuda.so", "LD_LIBRARY_PATH", "ld.so.cache", …"""
    folder: str
    outcome: str
    """"not there", "found", "wrong ELF class", …"""


@frozen
class Needer:
    """A file that names a library in its DT_NEEDED (or opens it by name)."""

    path: str
    owner: str
    imported: bool
    """Part of `import torch`; False for another file of the environment."""


@frozen
class Copy:
    """Another file of the environment that goes by the same soname."""

    path: str
    holders: tuple[RecordHolder, ...]


@frozen
class LibraryAnswer:
    """Who provides a shared library, and who needs it."""

    soname: str
    state: LibraryState
    """"first use": opened after the import. "not used": in the environment, but no part of `import torch`."""
    used_when: str
    """What opens it, for "first use"."""
    problem: str
    """What the loader would say of a missing one."""
    path: str
    """Empty when missing."""
    holders: tuple[RecordHolder, ...]
    """Of a missing one: whose RECORD lists a file of that name."""
    places: tuple[SearchedPlace, ...]
    needed_by: tuple[Needer, ...]
    copies: tuple[Copy, ...]


@frozen
class FileAnswer:
    """Whose a path is."""

    path: str
    exists: bool
    holders: tuple[RecordHolder, ...]
    needs: tuple[str, ...]
    """DT_NEEDED of an ELF file, in order."""


@frozen
class ModulePlace:
    """A file or folder that a module's name could mean."""

    path: str
    origin: str
    """Why its sys.path folder is there."""
    kind: Literal["package", "module", "extension", "bytecode", "namespace", "built in"]
    holders: tuple[RecordHolder, ...]


@frozen
class ModuleAnswer:
    """Which file `import NAME` takes."""

    name: str
    taken: ModulePlace
    also: tuple[ModulePlace, ...]
    """What is not taken because an earlier one shadows it; the further portions of a namespace package."""


@frozen
class Requirer:
    """A distribution that requires another one."""

    name: str
    version: str
    requirement: str
    """As its METADATA says it."""
    applies: bool
    """False where it waits for an extra or a marker that does not hold here."""


@frozen
class Shared:
    """Paths that another distribution owns as well."""

    other: str
    paths: tuple[str, ...]


@frozen
class DistributionAnswer:
    """What a distribution owns, and who wants it."""

    name: str
    version: str
    folder: str
    """Its dist-info folder."""
    origin: str
    installer: str
    editable_from: str
    """Where it was installed from, when not from an index."""
    files: int
    bytes: int
    missing: int
    changed: int
    sonames: tuple[str, ...]
    required_by: tuple[Requirer, ...]
    shared: tuple[Shared, ...]
    libraries: tuple[str, ...]
    """Sonames of `import torch`, first uses included, that are taken from it."""


@frozen
class Answer:
    """Everything a name stands for in one environment."""

    target: str
    asked: str
    library: LibraryAnswer | None = None
    file: FileAnswer | None = None
    module: ModuleAnswer | None = None
    distribution: DistributionAnswer | None = None
