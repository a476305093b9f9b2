"""The files of cache folders as they are there, and the entry each belongs to."""

import os
from collections.abc import Container, Iterable, Iterator, Mapping
from pathlib import Path

from envdoctor.catalog.cache_kinds import TEMPORARY, entry_of, kind_of
from envdoctor.errors import CacheError
from envdoctor.facts.host import Host
from envdoctor.facts.owned import maker_of
from envdoctor.model.frozen import frozen
from envdoctor.probes.caches.compile_caches import locate


@frozen
class Root:
    """One cache folder."""

    kind: str
    """A name of `envdoctor/catalog/cache_kinds.py`."""
    path: Path
    found_via: str
    """The variable or default that names it."""


@frozen
class CacheFile:
    """One file of a root."""

    root: str
    path: str
    """Relative to the root, with forward slashes."""
    size: int
    modified: int
    """Nanoseconds since the epoch."""
    mode: int
    owner: int = 0
    """User id."""

    @property
    def kind(self) -> str:
        """Return what kind of entry it belongs to."""
        return kind_of(self.root, self.path)

    @property
    def entry(self) -> str:
        """Return the entry it belongs to: what must go together when one of its files is damaged."""
        return entry_of(self.root, self.path)


def roots(host: Host) -> tuple[Root, ...]:
    """Return every cache folder this host's environment names, present or not."""
    return tuple(Root(kind=kind, path=path, found_via=via) for kind, path, via in locate(host))


def files(roots: Iterable[Root]) -> Iterator[CacheFile]:
    """Yield the regular files of the roots, each sorted by path; temporaries, locks, links and our own are left out.

    A root inside another (TRITON_CACHE_DIR below inductor's folder) is walked once, as itself. A folder or file that
    vanishes meanwhile is skipped, one that cannot be read raises CacheError.
    """
    walked = list(roots)
    for root in walked:
        nested = {other.path for other in walked if other.path != root.path}
        try:
            yield from _files(root, nested)
        except OSError as error:
            raise CacheError(f"{error.filename or root.path}: {error.strerror}", "look at it as its owner") from error


def _files(root: Root, nested: set[Path]) -> Iterator[CacheFile]:
    pending = [""]
    while pending:
        folder = pending.pop()
        try:
            with os.scandir(root.path / folder) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except FileNotFoundError:
            continue
        below = []
        for entry in entries:
            if TEMPORARY.match(entry.name) or (not folder and entry.name == "locks"):
                continue
            if entry.is_dir(follow_symlinks=False):
                if Path(entry.path) in nested:
                    continue
                below.append(f"{folder}{entry.name}/")
            elif entry.is_file(follow_symlinks=False) and (found := _describe(root, folder, entry)):
                yield found
        pending += reversed(below)


def _describe(root: Root, folder: str, entry: os.DirEntry[str]) -> CacheFile | None:
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    return CacheFile(
        root=root.kind,
        path=folder + entry.name,
        size=status.st_size,
        modified=status.st_mtime_ns,
        mode=status.st_mode & 0o777,
        owner=status.st_uid,
    )


def others_file(found: Iterable[CacheFile], kind: str, trusted: frozenset[int]) -> str:
    """Say which file of a root somebody else than the trusted users can have written; empty for none."""
    for file in found:
        if file.root == kind and (who := maker_of(file.owner, file.mode, trusted)):
            return f"holds {file.path}, which {who}"
    return ""


def install_order(found: Iterable[CacheFile]) -> list[CacheFile]:
    """Sort files so that whatever refers to others comes after them.

    Kernels first, then Triton's group files, then graphs: a process that reads while files arrive finds a graph only
    when its kernels are there.
    """
    return sorted(found, key=lambda file: (_rank(file), file.root, file.path))


def _rank(file: CacheFile) -> int:
    if file.kind == "triton kernel":
        return 1 if file.path.rpartition("/")[2].startswith("__grp__") else 0
    return {"fx graph": 3, "autograd graph": 4}.get(file.kind, 0)


def entry_files(
    found: Iterable[CacheFile], wanted: Container[tuple[str, str]]
) -> Mapping[tuple[str, str], list[CacheFile]]:
    """Return (root, entry) -> its files, for the wanted entries."""
    members: dict[tuple[str, str], list[CacheFile]] = {}
    for file in found:
        if (file.root, file.entry) in wanted:
            members.setdefault((file.root, file.entry), []).append(file)
    return members


def count_entries(found: Iterable[CacheFile]) -> Mapping[str, int]:
    """Return kind -> number of entries, most first."""
    entries: dict[str, set[tuple[str, str]]] = {}
    for file in found:
        entries.setdefault(file.kind, set()).add((file.root, file.entry))
    return {kind: len(members) for kind, members in sorted(entries.items(), key=lambda item: (-len(item[1]), item[0]))}
