"""A failed load as a fact: what is missing, who asked, which file lacks it and which other file has it."""

import os
from collections.abc import Iterator, Sequence

from envdoctor.catalog.symbol_families import is_torch_symbol, library_stems, stem_of
from envdoctor.elf.symbols import SymbolTable
from envdoctor.errors import ElfError
from envdoctor.facts.context import Reading
from envdoctor.facts.regular_file import read_prefix
from envdoctor.loader.disk import Disk
from envdoctor.loader.loaded import FailureKind, LoadedObject, LoadFailure, LoadResult
from envdoctor.loader.torch_import import TorchImport
from envdoctor.model.frozen import frozen, replace
from envdoctor.probes.loading.demangle import demangle
from envdoctor.probes.loading.own_code import Opening, OwnCode
from envdoctor.probes.loading.torch_build import TorchBuild
from envdoctor.probes.venv.owners import Owners
from envdoctor.probes.venv.records import index
from envdoctor.standards.bounded_json import loads

UNLOADABLE = ("cannot be loaded", "wrong ELF class", "wrong machine")
"""Kinds of failures of which the file itself is the reason."""
_HOLDERS = 3
_MAXIMUM_SEARCHED = 400
_MAXIMUM_STATED = 64 * 1024


@frozen
class SymbolHolder:
    """A file that defines a symbol, or that has a name."""

    path: str
    """Relative to the prefix when inside it."""
    owner: str
    owner_version: str


@frozen
class LoadFault:
    """One load that fails."""

    path: str
    """What was opened, relative to the prefix; empty for `import torch` itself."""
    owner: str
    owner_version: str
    module: bool
    """True for what Python imports, `import torch` included; False for a library that something opens."""
    first: bool
    """For `import torch`: whether this is what it raises, and not only what would come after."""
    kind: FailureKind
    message: str
    """What the loader says, word for word."""
    name: str
    """The symbol, the file name that is missing, or the version that is."""
    declaration: str
    """The symbol as C++ writes it; the same as `name` for C."""
    version: str
    requester: str
    """The object that asks, relative to the prefix; empty when it is the one opened."""
    requester_owner: str
    provider: str
    """The file that should have it and lacks it, relative to the prefix when inside it; empty when it is not known."""
    provider_owner: str
    provider_version: str
    provider_via: str
    """How the loader came to that file."""
    provider_offers: str
    """For a missing version: the newest of the same kind that the file defines ("GLIBC_2.36"); else empty."""
    has_it: tuple[SymbolHolder, ...]
    """Files of the environment that do have the symbol, or the name."""
    preloader: str
    """A Python file of the same package that seems to open what is missing beforehand; empty for none."""
    links: bool = False
    """It is linked against torch or NVIDIA's libraries."""
    missing: tuple[str, ...] = ()
    """Every file name that the object misses, itself or through what it needs; `name` is the first of them."""
    unlinked: str = ""
    """A file in a searched folder whose DT_SONAME is the wanted name and that has the version, without a link of that
    name; relative to the prefix when inside it; empty for none."""
    opening: Opening = ""
    """What the distribution's own Python code does with the file."""
    family: str = ""
    """Its path with a # for every number, where several files differ in numbers alone and none of them loads."""
    stated_build: str = ""
    """What a file beside it says that it was built for ("torch 2.10.0+cu128"); empty for nothing."""
    searched: tuple[str, ...] = ()
    """For a file name that is missing: the folders where it was looked for, relative to the prefix when inside it,
    those that do not exist included."""


class FaultMaker:
    """Turns the loader's failures into facts of one environment."""

    def __init__(self, reading: Reading, disk: Disk, owners: Owners, objects: Sequence[str]) -> None:
        """Take the shared objects of the environment, where a missing symbol is looked for."""
        self._reading = reading
        self._disk = disk
        self._owners = owners
        self._objects = objects
        self._lib = f"{reading.fact(TorchBuild).folder}/lib"
        self._code: dict[int, OwnCode] = {}

    def of_import(self, at: int, played: TorchImport) -> LoadFault:
        """Return the fault of the failure at that place of `import torch`."""
        failure = played.missing[at]
        first = played.failure is not None and played.failure.load is not None
        same = first and played.failure is not None and played.failure.message == failure.message
        return self._fault("", failure, played.objects, module=True, first=same)

    def of_object(self, path: str, result: LoadResult, *, module: bool) -> LoadFault:
        """Return the fault of an object that does not open; `result` comes from a tolerant loader."""
        assert result.failure is not None  # noqa: S101 - the caller chose the failed ones
        made = self._fault(path, result.failure, (*result.scope, *result.opened), module=module)
        code = self._own_code(path)
        return replace(
            made,
            missing=tuple(failure.name for failure in result.missing if failure.kind == "not found"),
            opening=code.opening(os.path.normpath(path)) if code else "",
            stated_build=_stated_build(path),
            searched=self._folders(result.failure),
        )

    def of_opener(self, path: str, failure: LoadFailure) -> LoadFault:
        """Return the fault of a Python file that opens a library by name when it is imported, and raises."""
        return replace(self._fault(path, failure, (), module=True), opening="at import")

    def _folders(self, failure: LoadFailure) -> tuple[str, ...]:
        folders = (self._owners.relative(attempt.directory) for attempt in failure.tried)
        return tuple(dict.fromkeys(filter(None, folders))) if failure.kind == "not found" else ()

    def torch_abi(self) -> str:
        """Return the std::string that torch was compiled with, from libc10.so's symbols."""
        if not self._reading.fact(TorchBuild).present:
            return ""
        try:
            names = [symbol.name for symbol in SymbolTable(f"{self._lib}/libc10.so").exported()]
        except ElfError:
            return ""
        if any("__cxx11" in name for name in names):
            return "cxx11"
        return "pre-cxx11" if any(name.endswith(("ESs", "RKSs")) for name in names) else ""

    def _fault(
        self, path: str, failure: LoadFailure, mapped: Sequence[LoadedObject], *, module: bool, first: bool = False
    ) -> LoadFault:
        requester = failure.requester or path
        owner = self._owners.of(path) if path else None
        asking = self._owners.of(requester) if requester else None
        lacking = self._provider(failure, requester, mapped)
        lacking_owner = self._owners.of(lacking.path, lacking.real) if lacking else None
        bad = self._bad(failure)
        bad_owner = self._owners.of(bad) if bad else None
        symbol = failure.kind == "undefined symbol"
        name = failure.version if failure.kind == "version not found" else failure.name
        return LoadFault(
            path=self._owners.relative(path),
            owner=owner.name if owner else "",
            owner_version=owner.version if owner else "",
            module=module,
            first=first,
            kind=failure.kind,
            message=failure.message,
            name=name,
            declaration=demangle(name) if symbol else name,
            version=failure.version,
            requester=self._owners.relative(requester) if requester != path else "",
            requester_owner=asking.name if asking else "",
            provider=self._owners.relative(bad or (lacking.path if lacking else "")),
            provider_owner=next((item.name for item in (bad_owner, lacking_owner) if item), ""),
            provider_version=next((item.version for item in (bad_owner, lacking_owner) if item), ""),
            provider_via=lacking.found_via if lacking else failure.tried[-1].via if bad and failure.tried else "",
            provider_offers=_newest_like(name, lacking) if failure.kind == "version not found" else "",
            has_it=tuple(self._holders(failure, lacking, requester)),
            preloader=self._preloader(path, failure) if failure.kind == "not found" and path else "",
            unlinked=self._owners.relative(self._unlinked(failure, lacking)),
        )

    def _provider(self, failure: LoadFailure, requester: str, mapped: Sequence[LoadedObject]) -> LoadedObject | None:
        """Return the mapped file that was to have the version or the symbol."""
        if failure.kind == "version not found":
            return next((item for item in mapped if item.path == failure.name), None)
        if failure.kind != "undefined symbol":
            return None
        if failure.tried:
            named = next((item for item in mapped if item.path == failure.tried[-1].path), None)
            if named is not None:
                return named
        asked = next((item.elf.needed for item in mapped if item.path == requester), ())
        for stem in library_stems(failure.name):
            found = [item for item in mapped if stem_of(item.soname or item.path.rpartition("/")[2]) == stem]
            # One that has the symbol is only out of the object's scope: it was opened for others, not linked against.
            found = [item for item in found if not _defines(item.path, failure)]
            # An object linked against it comes first; a library that is only mapped is the next best guess.
            found.sort(key=lambda item: item.soname not in asked)
            if found:
                return found[0]
        return self._namesake(failure, [item for item in mapped if item.soname in asked])

    def _namesake(self, failure: LoadFailure, linked: Sequence[LoadedObject]) -> LoadedObject | None:
        """Return what was mapped in the place of a file of the environment that has the symbol, by its name.

        `linked` are the mapped objects that the asking one names as needed.
        """
        by_name = {item.soname: item for item in linked if not _defines(item.path, failure)}
        for path in index(self._reading).owners if by_name else ():
            item = by_name.get(path[path.rfind("/") + 1 :])
            if item is None or self._disk.identity(path) in {None, self._disk.identity(item.path)}:
                continue
            if _defines(path, failure):
                return item
        return None

    def _bad(self, failure: LoadFailure) -> str:
        """Return the file that could not be mapped, where that is what failed; else empty."""
        # A search passes over what is for another machine, and then says that there is no such file.
        foreign = (os.path.normpath(at.path) for at in failure.tried if at.outcome.startswith("wrong "))
        if own := next((path for path in foreign if self._owners.of(path)), ""):
            return own
        if failure.kind not in UNLOADABLE:
            return ""
        named = failure.tried[-1].path if failure.tried else failure.message.rpartition(": ")[0]
        # "FILE: cannot read file data: No such device": the file is the first of the parts.
        paths = [named, named.partition(": ")[0], failure.name]
        return next((os.path.normpath(at) for at in paths if at.startswith("/") and self._disk.identity(at)), "")

    def _holders(self, failure: LoadFailure, lacking: LoadedObject | None, requester: str) -> Iterator[SymbolHolder]:
        found = 0
        known = {lacking.path, lacking.real} if lacking else set()
        for path in self._searched(failure, lacking):
            if path in known or path == requester or self._disk.identity(path) is None:
                continue
            if failure.kind == "undefined symbol" and not _defines(path, failure):
                continue
            owner = self._owners.of(path)
            yield SymbolHolder(
                path=self._owners.relative(path),
                owner=owner.name if owner else "",
                owner_version=owner.version if owner else "",
            )
            found += 1
            if found == _HOLDERS:
                return

    def _searched(self, failure: LoadFailure, lacking: LoadedObject | None) -> list[str]:
        """Return the files of the environment that might have what is missing."""
        everywhere = list(index(self._reading).owners)
        if failure.kind == "not found":
            return [path for path in everywhere if path.endswith(f"/{failure.name}")]
        if failure.kind != "undefined symbol":
            return []
        stems = set(library_stems(failure.name)) | ({stem_of(lacking.path.rpartition("/")[2])} if lacking else set())
        torch = [path for path in everywhere if path.startswith(self._lib) and ".so" in path]
        if is_torch_symbol(failure.name):
            return torch
        if stems:
            return [path for path in everywhere if ".so" in path and stem_of(path.rpartition("/")[2]) in stems]
        return [*torch, *self._objects][:_MAXIMUM_SEARCHED]

    def _own_code(self, path: str) -> OwnCode | None:
        """Return the Python code of the distribution that a file belongs to."""
        at = index(self._reading).owners.get(os.path.normpath(path))
        if at is None:
            return None
        if at not in self._code:
            self._code[at] = OwnCode(self._reading, at)
        return self._code[at]

    def _preloader(self, path: str, failure: LoadFailure) -> str:
        """Return a Python file of the object's own distribution that mentions the missing library."""
        code = self._own_code(path)
        return self._owners.relative(code.preloader(failure.name)) if code else ""

    def _unlinked(self, failure: LoadFailure, lacking: LoadedObject | None) -> str:
        """Return a file of the wanted soname that is in a searched folder under its full name alone."""
        wanted = lacking.soname if lacking else failure.name if failure.kind == "not found" else None
        if not wanted or "/" in wanted:
            return ""
        tried = lacking.tried if lacking else failure.tried
        for folder in dict.fromkeys(attempt.directory for attempt in tried if attempt.via != "ld.so.cache"):
            for name in self._disk.names(folder):
                path = f"{folder.rstrip('/')}/{name}"
                if name.startswith(f"{wanted}.") and self._is_named(path, wanted, failure):
                    return path
        return ""

    def _is_named(self, path: str, soname: str, failure: LoadFailure) -> bool:
        try:
            elf = self._disk.elf(path)
        except ElfError:
            return False
        return elf.soname == soname and (failure.kind == "not found" or failure.version in (elf.defines or ()))


def _stated_build(path: str) -> str:
    """Return what xformers' cpp_lib.json, written by its setup.py beside the extension, says of the build's torch."""
    try:
        document = loads(read_prefix(f"{path.rpartition('/')[0]}/cpp_lib.json", _MAXIMUM_STATED))
        version = document["version"]["torch"]
    except (OSError, ValueError, TypeError, KeyError):
        return ""
    return f"torch {version}" if isinstance(version, str) else ""


def _defines(path: str, failure: LoadFailure) -> bool:
    try:
        return SymbolTable(path).defines(failure.name, failure.version or None)
    except ElfError:
        return False


def _newest_like(version: str, lacking: LoadedObject | None) -> str:
    """Return the newest version the file defines of the wanted one's kind: GLIBC_2.36 for GLIBC_2.38."""
    kind = version.partition("_")[0] + "_"
    defined = (lacking.elf.defines or ()) if lacking else ()
    numbered = [(parts, name) for name in defined if name.startswith(kind) and (parts := _numbers(name))]
    return max(numbered)[1] if numbered else ""


def _numbers(version: str) -> tuple[int, ...]:
    parts = version.partition("_")[2].split(".")
    return tuple(map(int, parts)) if all(part.isdecimal() for part in parts) else ()
