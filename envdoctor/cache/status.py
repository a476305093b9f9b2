"""Whether the caches of an environment will hit, and if not, because of what."""

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from envdoctor.cache.key_parts import GUESSED, KeyComparison, KeyDifference, KeyPart, compare, digest
from envdoctor.cache.layout import CacheFile, Root, count_entries, files
from envdoctor.cache.manifest import Manifest
from envdoctor.catalog.cache_kinds import CPP, GRAPHS, PORTABLE
from envdoctor.model.frozen import frozen
from envdoctor.model.profile import CompileWanted
from envdoctor.probes.caches.compile_caches import CompileCache
from envdoctor.probes.caches.entry_damage import damage
from envdoctor.probes.machine.mounts import NETWORK

State = Literal["hit", "partial", "miss", "cold", "unknown"]
_VOLATILE = frozenset({"tmpfs", "ramfs"})
_NEARLY_FULL_BYTES = 256 << 20
# Variables that keep a cache from being asked at all; they are a part of no key: torch/_inductor/config.py,
# torch/_functorch/config.py, torch/compiler/config.py, triton/knobs.py.
_SWITCHES = (
    ("TORCHINDUCTOR_FORCE_DISABLE_CACHES", "1", "every cache of inductor"),
    ("TORCH_COMPILE_FORCE_DISABLE_CACHES", "1", "every cache of inductor"),
    ("TORCHINDUCTOR_FX_GRAPH_CACHE", "0", "the cache of FX graphs"),
    ("TORCHINDUCTOR_AUTOGRAD_CACHE", "0", "the cache of autograd graphs"),
    ("TRITON_ALWAYS_COMPILE", "1", "the cache of Triton kernels"),
)
_SEVERAL_RANKS = ("NNODES", "SLURM_NNODES", "WORLD_SIZE")


@frozen
class Damaged:
    """One entry that cannot be used, and must go whole."""

    root: str
    entry: str
    """Path below the root."""
    files: tuple[str, ...]
    """All of its files."""
    reason: str


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
class Match:
    """How a manifest compares with the present environment and the files that are there."""

    manifest: Manifest
    comparison: KeyComparison
    gone: int
    """Files it lists that are not there any more."""
    resized: int
    """Files it lists that have another size now."""


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
    uid: int,
    environ: Mapping[str, str],
    wanted: CompileWanted | None = None,
    live: bool = False,
) -> Status:
    """Look at every cache folder and compare it with the manifests that describe it."""
    roots = [Root(kind=cache.kind, path=Path(cache.path), found_via=cache.found_via) for cache in caches]
    found = list(files(roots))
    broken = damaged_entries(roots, found)
    match = _best(manifests, key, found)
    state, reasons = _switched_off(environ) or _decide(found, broken, match)
    statuses = tuple(_root_status(cache, found, uid, environ) for cache in caches)
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


def damaged_entries(roots: Iterable[Root], found: Sequence[CacheFile]) -> tuple[Damaged, ...]:
    """Return every entry of a listing that has a damaged file."""
    folders = {root.kind: root.path for root in roots}
    reasons: dict[tuple[str, str], str] = {}
    for file in found:
        if problem := damage(folders[file.root] / file.path, file.kind):
            reasons.setdefault((file.root, file.entry), f"{file.path.rpartition('/')[2]}: {problem}")
    members: dict[tuple[str, str], list[str]] = {entry: [] for entry in reasons}
    for file in found:
        if (file.root, file.entry) in members:
            members[file.root, file.entry].append(file.path)
    return tuple(
        Damaged(root=root, entry=entry, files=tuple(members[root, entry]), reason=reason)
        for (root, entry), reason in reasons.items()
    )


def _best(manifests: Iterable[Manifest], key: Sequence[KeyPart], found: Sequence[CacheFile]) -> Match | None:
    sizes = {(file.root, file.path): file.size for file in found}
    matches = [_match(manifest, key, sizes) for manifest in manifests]
    # Of several, the one that loses least; of those, the newest.
    matches.sort(key=lambda match: match.manifest.made_at, reverse=True)
    return min(matches, key=lambda match: (len(match.comparison.missing), match.gone), default=None)


def _match(manifest: Manifest, key: Sequence[KeyPart], sizes: Mapping[tuple[str, str], int]) -> Match:
    now = [(sizes.get((file.root, file.path)), file.size) for file in manifest.files]
    return Match(
        manifest=manifest,
        comparison=compare(manifest.key, key),
        gone=sum(size is None for size, _ in now),
        resized=sum(size is not None and size != then for size, then in now),
    )


def _switched_off(environ: Mapping[str, str]) -> tuple[State, tuple[str, ...]] | None:
    off = [
        f"{name}={environ[name]} switches {what} off" for name, value, what in _SWITCHES if environ.get(name) == value
    ]
    return ("miss", tuple(off)) if off else None


def _decide(
    found: Sequence[CacheFile], broken: Sequence[Damaged], match: Match | None
) -> tuple[State, tuple[str, ...]]:
    if not any(file.kind.endswith("graph") for file in found):
        held = "no file" if not found else "no compiled graph"
        return "cold", (f"{held} is in any cache folder: everything will be compiled",)
    damaged = [f"{len(broken)} damaged entries will be compiled again"] if broken else []
    if match is None:
        return "unknown", ("nothing here says which environment filled the cache", *damaged)
    relevant = [found for found in match.comparison.differences if _matters(found, match.manifest)]
    differing = [_sentence(difference) for difference in relevant]
    if any(kind in GRAPHS for difference in relevant for kind in difference.reaches):
        return "miss", (*differing, *damaged)
    guessed = [found for found in match.comparison.differences if found.name in GUESSED]
    then = match.manifest.made_at
    lost = [f"{match.gone} of {len(match.manifest.files)} files are gone since {then}"] if match.gone else []
    unknown = [f"{part.name} could not be determined: {part.value}" for part in match.comparison.unknown]
    unknown += [f"{_sentence(found)}, unless the training code sets it itself" for found in guessed]
    if differing or lost or damaged:
        return "partial", (*differing, *lost, *damaged, *unknown)
    if unknown:
        return "unknown", tuple(unknown)
    return "hit", (f"every part of the key is what it was on {then}, and so is every file",)


def _matters(difference: KeyDifference, manifest: Manifest) -> bool:
    """Say whether the difference is certain, and the manifest lists entries that it reaches."""
    if difference.name in GUESSED:
        return False
    kinds = difference.reaches or CPP
    return any(manifest.entries.get(kind) for kind in kinds)


def _sentence(found: KeyDifference) -> str:
    sets = f" (sets {', '.join(found.means)})" if found.means else ""
    effect = (
        f"{' and '.join(found.reaches)} entries miss" if found.reaches else "C++ kernels hit, but were built for it"
    )
    return f"{found.name}{sets}: was {shown(found.saved)}, is {shown(found.present)}; {effect}"


def shown(value: str) -> str:
    """Return a key part's value for a line of text."""
    if not value:
        return "not set"
    return f"`{value}`" if len(value) <= 40 else f"`{value[:16]}…`"


def _root_status(cache: CompileCache, found: Sequence[CacheFile], uid: int, environ: Mapping[str, str]) -> RootStatus:
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
        warnings=tuple(_warnings(cache, uid, environ)) if here or cache.kind in PORTABLE else (),
    )


def _warnings(cache: CompileCache, uid: int, environ: Mapping[str, str]) -> Iterable[str]:
    if not cache.writable:
        yield "not writable: nothing compiled will be kept"
    if cache.present and cache.owner_uid not in (uid, 0):
        yield f"belongs to user {cache.owner_uid}: torch runs the code that is in it"
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
