"""What decides whether a cache will hit: the key, the files by their hashes, the compiler, who can write there."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from envdoctor.cache.key_parts import COMPILER, GUESSED, KeyComparison, KeyDifference, KeyPart, compare
from envdoctor.cache.layout import CacheFile, entry_files
from envdoctor.cache.manifest import Manifest, StoredFile
from envdoctor.catalog.cache_kinds import CPP, GRAPHS, LOADED, kind_of
from envdoctor.facts.regular_file import open_regular
from envdoctor.model.frozen import frozen
from envdoctor.model.wording import counted

State = Literal["hit", "partial", "miss", "cold", "unknown"]
# Variables that keep a cache from being asked at all; they are a part of no key: torch/_inductor/config.py,
# torch/_functorch/config.py, torch/compiler/config.py, triton/knobs.py.
_SWITCHES = (
    ("TORCHINDUCTOR_FORCE_DISABLE_CACHES", "1", "every cache of inductor"),
    ("TORCH_COMPILE_FORCE_DISABLE_CACHES", "1", "every cache of inductor"),
    ("TORCHINDUCTOR_FX_GRAPH_CACHE", "0", "the cache of FX graphs"),
    ("TORCHINDUCTOR_AUTOGRAD_CACHE", "0", "the cache of autograd graphs"),
    ("TRITON_ALWAYS_COMPILE", "1", "the cache of Triton kernels"),
)
_MOST_HASHED = 1 << 30
"""Bytes that one status hashes, in about a second; what is beyond is compared by its size."""


@frozen
class Damaged:
    """One entry that cannot be used, and must go whole."""

    root: str
    entry: str
    """Path below the root."""
    files: tuple[str, ...]
    """All of its files."""
    reason: str
    loaded: bool = False
    """It is code that torch loads as it finds it: it is not compiled again, and the launch dies."""


@frozen
class Match:
    """How a manifest compares with the present environment and the files that are there."""

    manifest: Manifest
    comparison: KeyComparison
    gone: int
    """Files it lists that are not there any more."""
    resized: int
    """Files it lists that have another size now."""
    graphs_gone: bool = False
    """It lists FX graphs, and none of them is there."""


def best_match(manifests: Iterable[Manifest], key: Sequence[KeyPart], found: Sequence[CacheFile]) -> Match | None:
    """Return how the manifest that fits best compares; None without one."""
    sizes = {(file.root, file.path): file.size for file in found}
    matches = [_match(manifest, key, sizes) for manifest in manifests]
    # Of several, the one that loses least; of those, the newest.
    matches.sort(key=lambda match: match.manifest.made_at, reverse=True)
    return min(matches, key=lambda match: (len(match.comparison.missing), match.gone), default=None)


def _match(manifest: Manifest, key: Sequence[KeyPart], sizes: Mapping[tuple[str, str], int]) -> Match:
    now = [(sizes.get((file.root, file.path)), file.size) for file in manifest.files]
    graphs = [(file.root, file.path) for file in manifest.files if kind_of(file.root, file.path) == "fx graph"]
    return Match(
        manifest=manifest,
        comparison=compare(manifest.key, key),
        gone=sum(size is None for size, _ in now),
        resized=sum(size is not None and size != then for size, then in now),
        graphs_gone=bool(graphs) and not any(at in sizes for at in graphs),
    )


def altered(
    manifest: Manifest, folders: Mapping[str, Path], found: Sequence[CacheFile]
) -> tuple[tuple[Damaged, ...], int]:
    """Return the entries with a file whose content is not what the manifest lists, and the bytes not hashed.

    Graphs are left out: their names are their hashes.
    """
    here = {(file.root, file.path): file for file in found}
    left, unhashed = _MOST_HASHED, 0
    wrong: dict[tuple[str, str], str] = {}
    for listed in manifest.files:
        file = here.get((listed.root, listed.path))
        if file is None or file.kind in GRAPHS:
            continue
        if file.size == listed.size and file.size > left:
            unhashed += file.size
            continue
        left -= file.size
        if file.size != listed.size or _differs(folders[file.root] / file.path, listed):
            name = file.path.rpartition("/")[2]
            wrong.setdefault((file.root, file.entry), f"{name}: not the content that {manifest.name} lists")
    return entries(wrong, found), unhashed


def entries(reasons: Mapping[tuple[str, str], str], found: Sequence[CacheFile]) -> tuple[Damaged, ...]:
    """Return (root, entry) -> reason as entries with all of their files."""
    members = entry_files(found, reasons)
    return tuple(
        Damaged(
            root=root,
            entry=entry,
            files=tuple(file.path for file in members[root, entry]),
            reason=reason,
            loaded=any(file.kind in LOADED for file in members[root, entry]),
        )
        for (root, entry), reason in reasons.items()
    )


def _differs(path: Path, listed: StoredFile) -> bool:
    try:
        with open_regular(path) as content:
            return hashlib.file_digest(content, "sha256").hexdigest() != listed.sha256
    except OSError:
        return False  # gone meanwhile, or told as damaged


def switched_off(environ: Mapping[str, str]) -> tuple[State, tuple[str, ...]] | None:
    """Return a miss with its reasons where a variable keeps torch from asking; else None."""
    off = [
        f"{name}={environ[name]} switches {what} off" for name, value, what in _SWITCHES if environ.get(name) == value
    ]
    return ("miss", tuple(off)) if off else None


def decide(
    found: Sequence[CacheFile],
    broken: Sequence[Damaged],
    match: Match | None,
    strangers: Sequence[str],
    unhashed: int,
) -> tuple[State, tuple[str, ...]]:
    """Return the state and its reasons, the deciding one first.

    strangers: who else can write which folder. unhashed: bytes of files that were compared by size only.
    """
    if not any(file.kind.endswith("graph") for file in found):
        held = "no file" if not found else "no compiled graph"
        return "cold", (f"{held} is in any cache folder: everything will be compiled",)
    fatal = [f"{counted(number, 'damaged kernel')} would be loaded as found, and end the launch: {first.reason}"
             for number, first in _first(item for item in broken if item.loaded)]  # fmt: skip
    again = sum(not item.loaded for item in broken)
    damaged = [*fatal, *([f"{again} damaged entries will be compiled again"] if again else [])]
    if match is None:
        return "unknown", (*strangers, "nothing here says which environment filled the cache", *damaged)
    then = match.manifest.made_at
    relevant = [found for found in match.comparison.differences if _matters(found, match.manifest)]
    differing = [_sentence(difference) for difference in relevant]
    lost = [f"{match.gone} of {len(match.manifest.files)} files are gone since {then}"] if match.gone else []
    if match.graphs_gone:
        differing.insert(0, f"none of the FX graphs of {then} is there any more")
    stops = any(found.name == COMPILER and not found.present for found in relevant)
    if fatal or stops or match.graphs_gone or any(kind in GRAPHS for found in relevant for kind in found.reaches):
        return "miss", (*strangers, *differing, *damaged)
    unknown = [f"{part.name} could not be determined: {plain(part.value)}" for part in match.comparison.unknown]
    guessed = [found for found in match.comparison.differences if found.name in GUESSED]
    unknown += [f"{_sentence(found)}, unless the training code sets it itself" for found in guessed]
    if differing or lost or damaged:
        return "partial", (*strangers, *differing, *lost, *damaged, *unknown)
    if strangers or unknown:
        return "unknown", (*strangers, *unknown)
    how = f"by its hash, but for {unhashed / 1e6:.0f} MB by size only" if unhashed else "by its hash"
    same = f"every part of the key is what it was on {then}, and so is every file, {how}"
    return "hit", (same, *_on_whose_word(match.manifest))


def _on_whose_word(manifest: Manifest) -> Iterator[str]:
    """Yield what nobody proved: only a warm-up saw which environment it serves."""
    if not is_proven(manifest):
        yield (
            f"that this environment filled it is what {manifest.name} says, and was not measured: `cache save` takes "
            "your word for it"
        )


def is_proven(manifest: Manifest) -> bool:
    """Tell whether a warm-up saw the cache hit; envdoctor 0.3 noted only one that began from nothing."""
    return bool(manifest.proven or manifest.cold_seconds)


def proof_of(manifest: Manifest, known: Iterable[Manifest]) -> Manifest | None:
    """Return the manifest of a warm-up with the same key that saw each of these files; None for none."""
    taken = {(file.root, file.path, file.sha256) for file in manifest.files}
    return next(
        (
            other
            for other in known
            if is_proven(other)
            and taken <= {(file.root, file.path, file.sha256) for file in other.files}
            and not compare(other.key, manifest.key).differences
        ),
        None,
    )


def _first(items: Iterable[Damaged]) -> list[tuple[int, Damaged]]:
    all_of_them = list(items)
    return [(len(all_of_them), all_of_them[0])] if all_of_them else []


def _matters(difference: KeyDifference, manifest: Manifest) -> bool:
    """Say whether the difference is certain, and the manifest lists entries that it reaches."""
    if difference.name in GUESSED:
        return False
    kinds = difference.reaches or CPP
    return any(manifest.entries.get(kind) for kind in kinds)


def _sentence(found: KeyDifference) -> str:
    if found.name == COMPILER and not found.present:
        return "no C++ compiler is on PATH ($CXX, g++): torch asks for one before it loads a C++ kernel, and ends"
    sets = f" (sets {', '.join(found.means)})" if found.means else ""
    effect = (
        f"{' and '.join(found.reaches)} entries miss" if found.reaches else "C++ kernels hit, but were built for it"
    )
    return f"{found.name}{sets}: was {shown(found.saved)}, is {shown(found.present)}; {effect}"


def shown(value: str) -> str:
    """Return a key part's value for a line of text."""
    if not value:
        return "not set"
    return f"`{plain(value)}`" if len(value) <= 40 else f"`{plain(value[:16])}…`"


def plain(text: str) -> str:
    """Return a text on one line, what is no sign of it written out: a manifest may say anything."""
    return text if text.isprintable() else "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)
