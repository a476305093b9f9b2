"""Whether the caches of an environment will hit, and if not, because of what."""

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from envdoctor.cache.key_parts import KeyPart, digest
from envdoctor.cache.layout import CacheFile, Root, count_entries, files, others_file
from envdoctor.cache.manifest import Manifest
from envdoctor.cache.will_hit import Damaged, Match, State, altered, best_match, decide, entries, switched_off
from envdoctor.catalog.cache_kinds import PORTABLE
from envdoctor.model.frozen import frozen
from envdoctor.model.profile import CompileWanted
from envdoctor.probes.caches.compile_caches import CompileCache
from envdoctor.probes.caches.entry_damage import damage
from envdoctor.probes.machine.mounts import NETWORK

_VOLATILE = frozenset({"tmpfs", "ramfs"})
_NEARLY_FULL_BYTES = 256 << 20
_SEVERAL_RANKS = ("NNODES", "SLURM_NNODES", "WORLD_SIZE")


@frozen
class RootStatus:
    """One cache folder as it is now."""

    kind: str
    path: str
    found_via: str
    present: bool
    filesystem: str
    owner_uid: int
    bytes: int
    files: int
    entries: Mapping[str, int]
    """Kind of entry -> number."""
    oldest: int
    """Seconds since the epoch; 0 when empty."""
    newest: int
    warnings: tuple[str, ...]


@frozen
class Status:
    """Everything `cache status` has to say."""

    state: State
    reasons: tuple[str, ...]
    """Why the state is what it is, the deciding one first."""
    roots: tuple[RootStatus, ...]
    damaged: tuple[Damaged, ...]
    key: tuple[KeyPart, ...]
    key_digest: str
    match: Match | None
    """The manifest that fits best; None when nothing says what filled the cache."""
    live: bool
    """Whether the venv's torch was asked."""
    warnings: tuple[str, ...] = ()
    """What the profile expects and this is not."""


def examine(
    caches: Sequence[CompileCache],
    manifests: Iterable[Manifest],
    key: Sequence[KeyPart],
    *,
    trusted: frozenset[int],
    environ: Mapping[str, str],
    wanted: CompileWanted | None = None,
    live: bool = False,
) -> Status:
    """Look at every cache folder and compare it with the manifests that describe it.

    trusted: the users whose files count.
    """
    roots = [Root(kind=cache.kind, path=Path(cache.path), found_via=cache.found_via) for cache in caches]
    found = list(files(roots))
    match = best_match(manifests, key, found)
    broken, unhashed = _broken(roots, found, match.manifest if match else None)
    held = {file.root for file in found}
    strangers = [
        f"{cache.path} {who}: torch runs the code that is in it"
        for cache in caches
        if cache.kind in held and (who := cache.others or others_file(found, cache.kind, trusted))
    ]
    state, reasons = switched_off(environ) or decide(found, broken, match, strangers, unhashed)
    statuses = tuple(_root_status(cache, found, environ) for cache in caches)
    return Status(
        state=state,
        reasons=reasons,
        roots=statuses,
        damaged=broken,
        key=tuple(key),
        key_digest=digest(key),
        match=match,
        live=live,
        warnings=tuple(_against_profile(statuses, wanted, digest(key))) if wanted else (),
    )


def damaged_entries(
    roots: Iterable[Root], found: Sequence[CacheFile], manifests: Iterable[Manifest] = (), key: Sequence[KeyPart] = ()
) -> tuple[Damaged, ...]:
    """Return every entry of a listing that has a damaged file, by itself or by the manifest that fits best."""
    match = best_match(manifests, key, found)
    return _broken(list(roots), found, match.manifest if match else None)[0]


def _broken(
    roots: Sequence[Root], found: Sequence[CacheFile], manifest: Manifest | None
) -> tuple[tuple[Damaged, ...], int]:
    """Return the damaged entries, and the bytes of what the manifest lists that were compared by size only."""
    folders = {root.kind: root.path for root in roots}
    broken = _damaged(folders, found)
    if manifest is None:
        return broken, 0
    known = {(item.root, item.entry) for item in broken}
    changed, unhashed = altered(manifest, folders, found)
    return (*broken, *(item for item in changed if (item.root, item.entry) not in known)), unhashed


def _damaged(folders: Mapping[str, Path], found: Sequence[CacheFile]) -> tuple[Damaged, ...]:
    reasons: dict[tuple[str, str], str] = {}
    for file in found:
        if problem := damage(folders[file.root] / file.path, file.kind):
            reasons.setdefault((file.root, file.entry), f"{file.path.rpartition('/')[2]}: {problem}")
    return entries(reasons, found)


def _root_status(cache: CompileCache, found: Sequence[CacheFile], environ: Mapping[str, str]) -> RootStatus:
    here = [file for file in found if file.root == cache.kind]
    times = [file.modified // 1_000_000_000 for file in here]
    return RootStatus(
        kind=cache.kind,
        path=cache.path,
        found_via=cache.found_via,
        present=cache.present,
        filesystem=cache.filesystem,
        owner_uid=cache.owner_uid,
        bytes=sum(file.size for file in here),
        files=len(here),
        entries=count_entries(here),
        oldest=min(times, default=0),
        newest=max(times, default=0),
        warnings=tuple(_warnings(cache, environ)) if here or cache.kind in PORTABLE else (),
    )


def _warnings(cache: CompileCache, environ: Mapping[str, str]) -> Iterable[str]:
    if not cache.writable:
        yield "not writable: nothing compiled will be kept"
    if cache.others:
        yield f"{cache.others}: torch runs the code that is in it"
    if cache.filesystem in _VOLATILE:
        yield f"on {cache.filesystem}: lost at the next reboot"
    if cache.filesystem in NETWORK:
        several = any(environ.get(name, "1") not in ("", "1") for name in _SEVERAL_RANKS)
        yield f"on {cache.filesystem}: " + (
            "ranks of several nodes write the same files, expect stale file handles"
            if several
            else "do not share it between nodes while they compile"
        )
    free = _free(Path(cache.path))
    if free is not None and free < _NEARLY_FULL_BYTES:
        yield f"its filesystem has {free / 1e6:.0f} MB left"


def _free(path: Path) -> int | None:
    while not path.exists() and path != path.parent:
        path = path.parent
    try:
        return shutil.disk_usage(path).free
    except OSError:
        return None


def _against_profile(roots: Sequence[RootStatus], wanted: CompileWanted, key: str) -> Iterable[str]:
    counted = [root for root in roots if root.kind in PORTABLE]
    number, size = sum(root.files for root in counted), sum(root.bytes for root in counted)
    if number < wanted.cache_minimum_entries:
        yield f"{number} files, the profile expects at least {wanted.cache_minimum_entries}"
    if wanted.cache_bytes and not wanted.cache_bytes[0] <= size <= wanted.cache_bytes[-1]:
        low, high = wanted.cache_bytes[0], wanted.cache_bytes[-1]
        yield f"{size / 1e6:.0f} MB, the profile expects {low / 1e6:.0f} to {high / 1e6:.0f} MB"
    inductor = next((root.path for root in roots if root.kind == "inductor"), "")
    if wanted.cache_location and os.path.realpath(inductor) != os.path.realpath(
        Path(wanted.cache_location).expanduser()
    ):
        yield f"is at {inductor}, the profile wants it at {wanted.cache_location}"
    if wanted.cache_key and wanted.cache_key != key:
        yield f"this environment's key is {key}, the profile's cache has {wanted.cache_key}"
