"""Plays the dynamic loader: maps the program, then whatever dlopen is asked for, and says what would fail and how.

Modelled on glibc's elf/dl-open.c and elf/dl-deps.c: dependencies are mapped breadth first, the first name that cannot
be mapped is the error, and a failed dlopen unmaps what it brought in. Nothing is executed. Symbols are not bound here;
the scope each result carries is what `envdoctor.elf.symbols` needs for that.
"""

import os
from collections.abc import Iterator

from envdoctor.elf.reader import ElfObject
from envdoctor.errors import ElfError
from envdoctor.loader import loaded, search
from envdoctor.loader.binding import Binder
from envdoctor.loader.disk import Disk
from envdoctor.loader.loaded import NO_SUCH_FILE, LoadedObject, LoadFailure, LoadResult
from envdoctor.loader.search import Attempt, FoundVia, SearchResult, SearchRoots
from envdoctor.model.frozen import replace


class _Entry:
    """A mapped object while the simulation runs."""

    __slots__ = ("fact", "loader", "needed", "origin", "versions_checked")

    def __init__(
        self, fact: LoadedObject, origin: str, loader: "_Entry | None", *, versions_checked: bool = False
    ) -> None:
        self.fact, self.origin, self.loader, self.versions_checked = fact, origin, loader, versions_checked
        self.needed: list[_Entry] = []

    @property
    def elf(self) -> ElfObject:
        return self.fact.elf


class _Stop(Exception):  # noqa: N818 - control flow inside one dlopen, never seen outside
    def __init__(self, failure: LoadFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Loader:
    """One process's loader. Call `start` once with the program, then `open` for every dlopen in the order they happen.

    `preload_errors` keeps what ld.so would print about LD_PRELOAD: such an object is ignored, not fatal.

    A tolerant loader does what no real one does: it goes on past a dependency that cannot be mapped and keeps what it
    mapped, so that one run finds every missing name and not only the first.
    """

    def __init__(
        self, roots: SearchRoots, disk: Disk | None = None, *, tolerant: bool = False, binder: Binder | None = None
    ) -> None:
        """Take the search roots and, to share what was read, the disk memo. With a binder, dlopen binds symbols too."""
        self.roots = roots
        self.binder = binder
        self.tolerant = tolerant
        self.disk = disk or Disk()
        self.preload_errors: tuple[str, ...] = ()
        self._entries: list[_Entry] = []
        self._names: dict[str, _Entry] = {}
        self._program: _Entry | None = None
        self._global: list[_Entry] = []
        self._label = ""

    def fork(self) -> "Loader":
        """Return an independent loader in the same state, to ask what a later dlopen would do."""
        other = Loader(self.roots, self.disk, tolerant=self.tolerant, binder=self.binder)
        other.preload_errors = self.preload_errors
        copies = {id(entry): _Entry(entry.fact, entry.origin, None, versions_checked=True) for entry in self._entries}
        for entry in self._entries:
            copies[id(entry)].loader = copies[id(entry.loader)] if entry.loader is not None else None
            copies[id(entry)].needed = [copies[id(item)] for item in entry.needed]
        other._names = {name: copies[id(entry)] for name, entry in self._names.items()}
        other._entries = list(copies.values())
        other._global = [copies[id(entry)] for entry in self._global]
        other._program = copies[id(self._program)] if self._program is not None else None
        return other

    @property
    def objects(self) -> tuple[LoadedObject, ...]:
        """Everything mapped now, in the order it was mapped."""
        return tuple(entry.fact for entry in self._entries)

    def find(self, name: str) -> LoadedObject | None:
        """Return the mapped object that a bare name or path stands for, or None."""
        entry = self._names.get(name)
        return entry.fact if entry else None

    def start(self, program: str) -> LoadResult:
        """Map the program, LD_PRELOAD and their dependencies.

        The kernel has the program's symlinks resolved, so its $ORIGIN is the real folder (of the base interpreter).
        """
        self._label = "program"
        real = os.path.realpath(os.path.join(self.roots.cwd, program))
        try:
            entry = self._program = self._map_file(real, program, None, program=True)
            if entry.elf.interpreter is not None:
                self._map_file(entry.elf.interpreter, entry.elf.interpreter, entry, program=True)
        except _Stop as stop:
            return self._failed(program, 0, stop)
        return self._finish(program, [entry, *self._preload(entry)], 0, global_=True)

    def open(self, name: str, *, requester: str | None = None, global_: bool = False, label: str = "") -> LoadResult:
        """Play `dlopen(name)` called from the mapped object with the path `requester` (None: from the program).

        `global_` is RTLD_GLOBAL. `label` is kept with every object this call maps.
        """
        self._label = label
        mark = len(self._entries)
        caller = next((entry for entry in self._entries if entry.fact.path == requester), self._program)
        try:
            entry = self._map(name, caller, dlopen=True)
        except _Stop as stop:
            return self._failed(name, mark, stop)
        return self._finish(name, [entry], mark, global_=global_)

    def _finish(self, name: str, roots: list[_Entry], mark: int, *, global_: bool) -> LoadResult:
        missing: list[LoadFailure] = []
        try:
            walked = self._map_dependencies(roots, missing)
            for entry in walked:
                self._check_versions(entry, missing)
            scope = self._scope(walked)
            if mark and not missing:
                self._bind(walked, mark, scope, missing)
        except _Stop as stop:
            return self._failed(name, mark, stop)
        if global_:
            self._global += [entry for entry in walked if entry not in self._global]
        return LoadResult(
            name=name,
            opened=tuple(entry.fact for entry in self._entries[mark:]),
            root=roots[0].fact,
            scope=scope,
            failure=missing[0] if missing else None,
            missing=tuple(missing),
        )

    def _scope(self, walked: list[_Entry]) -> tuple[LoadedObject, ...]:
        entries = {id(entry): entry.fact for entry in (*self._global, *walked)}
        return tuple(entries.values())

    def _bind(
        self, walked: list[_Entry], mark: int, scope: tuple[LoadedObject, ...], missing: list[LoadFailure]
    ) -> None:
        """Bind what was newly mapped (the program itself, mapped at mark 0, starts lazily bound)."""
        if self.binder is None:
            return
        new = set(map(id, self._entries[mark:]))
        order = [entry.fact for entry in _relocation_order(walked) if id(entry) in new]
        failure = self.binder.first_failure(order, scope)
        if failure is not None:
            self._note(_Stop(failure), missing)

    def _failed(self, name: str, mark: int, stop: _Stop) -> LoadResult:
        gone = set(map(id, self._entries[mark:]))
        self._names = {name: entry for name, entry in self._names.items() if id(entry) not in gone}
        del self._entries[mark:]
        return LoadResult(name=name, opened=(), root=None, failure=stop.failure, missing=(stop.failure,))

    def _preload(self, program: _Entry) -> Iterator[_Entry]:
        for name in self.roots.preload:
            self._label = "LD_PRELOAD"
            try:
                yield self._map(name, program)
            except _Stop as stop:
                reason = stop.failure.message.partition(": ")[2]
                self.preload_errors += (f"object '{name}' from LD_PRELOAD cannot be preloaded ({reason}): ignored.",)

    def _map_dependencies(self, roots: list[_Entry], missing: list[LoadFailure]) -> list[_Entry]:
        queue = list(roots)
        listed = set(map(id, queue))
        for entry in queue:
            for name in entry.elf.needed:
                try:
                    item = self._map(name, entry)
                except _Stop as stop:
                    self._note(stop, missing)
                    continue
                if item not in entry.needed:
                    entry.needed.append(item)
                if id(item) not in listed:
                    listed.add(id(item))
                    queue.append(item)
        return queue

    def _note(self, stop: _Stop, missing: list[LoadFailure]) -> None:
        if not self.tolerant:
            raise stop
        if stop.failure.message not in {failure.message for failure in missing}:
            missing.append(stop.failure)

    def _map(self, name: str, requester: _Entry | None, *, dlopen: bool = False) -> _Entry:
        known = self._names.get(name)
        if known is not None:
            return known
        asked_by = None if dlopen else requester
        if "/" in name:
            return self._map_file(
                search.expand(name, requester.origin if requester else "", self.roots), name, asked_by
            )
        try:
            found = search.find(name, requester, self._program, self.roots, self.disk)
        except ElfError as error:
            raise _Stop(_unloadable(name, asked_by, error.message)) from error
        if found.path is None:
            raise _Stop(_missing(name, asked_by, found, self.roots))
        return self._enter(self.disk.elf(found.path), name, asked_by, found.tried, requester)

    def _map_file(self, path: str, name: str, asked_by: _Entry | None, *, program: bool = False) -> _Entry:
        full = os.path.join(self.roots.cwd, path)
        via: FoundVia = "program" if program else "absolute path"
        attempt = Attempt(via=via, directory=os.path.dirname(full), path=full)
        if self.disk.identity(full) is None:
            raise _Stop(_missing(name, asked_by, SearchResult(path=None, tried=(attempt,)), self.roots))
        try:
            elf = self.disk.elf(full)
        except ElfError as error:
            raise _Stop(_unloadable(name, asked_by, error.message)) from error
        wrong = elf.bits != self.roots.bits
        if wrong or elf.machine != self.roots.machine:
            # By path there is no next candidate. Of a foreign machine ld.so says "No such file", as of a missing one.
            raise _Stop(
                LoadFailure(
                    kind="wrong ELF class" if wrong else "wrong machine",
                    name=name,
                    requester=asked_by.fact.path if asked_by else None,
                    message=f"{name}: {f'wrong ELF class: ELFCLASS{elf.bits}' if wrong else NO_SUCH_FILE}",
                    tried=(replace(attempt, outcome="wrong ELF class" if wrong else "wrong machine"),),
                )
            )
        return self._enter(elf, name, asked_by, (replace(attempt, outcome="found"),), asked_by)

    def _enter(
        self, elf: ElfObject, name: str, loader: _Entry | None, tried: tuple[Attempt, ...], requester: _Entry | None
    ) -> _Entry:
        for entry in self._entries:
            if entry.elf.identity == elf.identity:
                self._names.setdefault(name, entry)
                return entry
        refused = loaded.refusal(elf) if tried[-1].via != "program" else None
        if refused:
            raise _Stop(_unloadable(name, loader, f"{elf.path}: {refused}"))
        fact = LoadedObject(
            path=elf.path,
            real=self.disk.real(elf.path),
            elf=elf,
            requested_as=name,
            requester=requester.fact.path if requester else None,
            label=self._label,
            tried=tried,
        )
        entry = _Entry(fact, search.origin_of(elf.path, self.roots.cwd), loader)
        self._entries.append(entry)
        # A name goes to the object mapped first: ld.so walks its list from the front.
        for alias in (name, elf.path, elf.soname):
            if alias is not None:
                self._names.setdefault(alias, entry)
        return entry

    def _check_versions(self, entry: _Entry, missing: list[LoadFailure]) -> None:
        if entry.versions_checked:
            return
        entry.versions_checked = True
        for need in entry.elf.needs:
            provider = self._names.get(need.file)
            if provider is None or provider.elf.defines is None or need.weak or need.name in provider.elf.defines:
                continue
            path, asked_by = provider.fact.path, entry.fact.path
            failure = LoadFailure(
                kind="version not found",
                name=path,
                requester=asked_by,
                message=f"{path}: version `{need.name}' not found (required by {asked_by})",
                tried=provider.fact.tried,
                version=need.name,
            )
            self._note(_Stop(failure), missing)


def _missing(name: str, requester: _Entry | None, found: SearchResult, roots: SearchRoots) -> LoadFailure:
    # The second half is strerror(errno) of the last open. Where no folder was looked into, none has set it.
    looked = any(attempt.via != "ld.so.cache" for attempt in found.tried)
    reason = NO_SUCH_FILE if looked else NO_SUCH_FILE.partition(":")[0]
    if found.other_class:
        reason = f"wrong ELF class: ELFCLASS{96 - roots.bits}"
    return LoadFailure(
        kind="wrong ELF class" if found.other_class else "not found",
        name=name,
        requester=requester.fact.path if requester else None,
        message=f"{name}: {reason}",
        tried=found.tried,
    )


def _unloadable(name: str, requester: _Entry | None, message: str) -> LoadFailure:
    asked_by = requester.fact.path if requester else None
    return LoadFailure(kind="cannot be loaded", name=name, requester=asked_by, message=message)


def _relocation_order(walked: list[_Entry]) -> list[_Entry]:
    """Dependencies before what needs them: glibc's `_dl_sort_maps` (the form of 2.35) from its end."""
    done: dict[int, _Entry] = {}
    visited: set[int] = set()
    for start in reversed(walked):
        stack = [(start, iter(start.needed))]
        if id(start) in visited:
            continue
        visited.add(id(start))
        while stack:
            entry, rest = stack[-1]
            following = next((item for item in rest if id(item) not in visited), None)
            if following is None:
                done[id(entry)] = entry
                stack.pop()
            else:
                visited.add(id(following))
                stack.append((following, iter(following.needed)))
    return list(done.values())
