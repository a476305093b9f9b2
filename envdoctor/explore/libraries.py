"""Who provides a shared library, in which order it was looked for, and who needs it."""

import os
from collections.abc import Iterator

from envdoctor.elf.reader import ElfObject
from envdoctor.errors import ElfError, ProbeError
from envdoctor.explore.environment import ExploredEnvironment
from envdoctor.loader.lazy import LazyLibrary
from envdoctor.loader.loaded import LoadedObject, LoadFailure
from envdoctor.loader.search import Attempt, Mapped, find
from envdoctor.model.frozen import frozen
from envdoctor.model.why import Copy, LibraryAnswer, LibraryState, Needer, RecordHolder, SearchedPlace
from envdoctor.probes.loading.loader import loader_roots


@frozen
class _Opened:
    """A file as the loader has it when its own package opens it."""

    elf: ElfObject
    origin: str
    loader: Mapped | None = None


def library_answer(environment: ExploredEnvironment, soname: str, path: str) -> LibraryAnswer | None:
    """Return the answer for a soname; `path` is the absolute path that was named, or empty. None for an unknown one."""
    found, state, when = _loaded(environment, soname, path)
    failure = None if found else _failure(environment, soname)
    copies = list(_copies(environment, soname, found.path if found else ""))
    needed_by = tuple(_needed_by(environment, soname))
    if found is None and failure is None and not copies:
        return _of_a_file(environment, soname, needed_by)
    tried = found.tried if found else failure.tried if failure else ()
    return LibraryAnswer(
        soname=soname,
        state=state if found else "missing" if failure else "not used",
        used_when=when,
        problem=failure.message if failure else "",
        path=environment.shown(found.path) if found else "",
        # Of a missing one: who should bring it.
        holders=environment.holders(os.path.normpath(found.path), found.real)
        if found
        else _recorded(environment, soname),
        places=tuple(_place(environment, attempt, found.label if found else "") for attempt in tried),
        needed_by=needed_by,
        copies=tuple(copies),
    )


def _recorded(environment: ExploredEnvironment, soname: str) -> tuple[RecordHolder, ...]:
    return environment.holders(*environment.recorded_as(soname))


def _of_a_file(environment: ExploredEnvironment, soname: str, needed_by: tuple[Needer, ...]) -> LibraryAnswer | None:
    """Return the answer for a soname that only other files ask for, searched as the first of them would.

    None where no file asks for it and no RECORD lists it.
    """
    asking = next((elf for elf in environment.objects() if soname in elf.needed), None)
    recorded = _recorded(environment, soname)
    if asking is None and not recorded:
        return None
    path, problem = "", ""
    places: tuple[SearchedPlace, ...] = ()
    try:
        roots = loader_roots(environment.reading, environment.disk)
        requester = _Opened(elf=asking, origin=os.path.dirname(asking.path)) if asking else None
        found = find(soname, requester, None, roots, environment.disk)
        path, places = found.path or "", tuple(_place(environment, attempt) for attempt in found.tried)
    except (ElfError, ProbeError) as error:
        problem = str(error)
    absent = f"{soname}: cannot open shared object file: No such file or directory"
    return LibraryAnswer(
        soname=soname,
        state="not used" if path else "missing",
        used_when="",
        problem="" if path else problem or absent,
        path=environment.shown(path) if path else "",
        holders=environment.holders(os.path.normpath(path), environment.disk.real(path)) if path else recorded,
        places=places,
        needed_by=needed_by,
        copies=(),
    )


def _loaded(environment: ExploredEnvironment, soname: str, path: str) -> tuple[LoadedObject | None, LibraryState, str]:
    played = environment.played
    if played is None:
        return None, "not used", ""
    for item in played.objects:
        if _goes_by(item, soname, path):
            return item, "loaded", ""
    for lazy in played.lazy:
        for item in lazy.result.opened:
            if _goes_by(item, soname, path):
                return item, "first use", lazy.when
    return None, "not used", ""


def _goes_by(item: LoadedObject, soname: str, path: str) -> bool:
    if path:
        return path in (os.path.normpath(item.path), item.real)
    return soname in (item.soname, item.requested_as, os.path.basename(item.path))


def _failure(environment: ExploredEnvironment, soname: str) -> LoadFailure | None:
    played = environment.played
    if played is None:
        return None
    lazily = (lazy.result.failure for lazy in played.lazy if lazy.result.failure is not None)
    return next((failure for failure in (*played.missing, *lazily) if failure.name == soname), None)


def _place(environment: ExploredEnvironment, attempt: Attempt, label: str = "") -> SearchedPlace:
    of = f" of {os.path.basename(attempt.of)}" if attempt.of else ""
    folder = attempt.path if attempt.via in ("absolute path", "ld.so.cache") and attempt.path else attempt.directory
    via = "torch's preload list" if label == "preload" else f"{attempt.via}{of}"
    return SearchedPlace(via=via, folder=environment.shown(folder), outcome=attempt.outcome)


def _needed_by(environment: ExploredEnvironment, soname: str) -> Iterator[Needer]:
    seen: set[str] = set()
    played = environment.played
    for item in played.objects if played else ():
        if soname in item.elf.needed:
            seen.add(item.real)
            yield _needer(environment, item.path, item.real, imported=True)
    for lazy in played.lazy if played else ():
        yield from (_opener(environment, lazy) for _ in (1,) if lazy.name == soname)
    for elf in environment.objects():
        real = environment.disk.real(elf.path)
        if soname in elf.needed and real not in seen:
            seen.add(real)
            yield _needer(environment, elf.path, real, imported=False)


def _needer(environment: ExploredEnvironment, path: str, real: str, *, imported: bool) -> Needer:
    owner = environment.owner(os.path.normpath(path), real)
    return Needer(path=environment.shown(path), owner=owner, imported=imported)


def _opener(environment: ExploredEnvironment, lazy: LazyLibrary) -> Needer:
    return _needer(environment, lazy.opener, environment.disk.real(lazy.opener), imported=True)


def _copies(environment: ExploredEnvironment, soname: str, taken: str) -> Iterator[Copy]:
    identity = environment.disk.identity(taken) if taken else None
    for elf in environment.objects():
        named = soname in (elf.soname, os.path.basename(elf.path))
        if named and elf.identity != identity:
            yield Copy(path=environment.shown(elf.path), holders=environment.holders(elf.path))
