"""Where snapshots, the manifests of warm-ups and their history are kept.

Not under ~/.cache: what is kept here exists because caches get deleted. A copy of each manifest is inside the cache
it describes (`.envdoctor/NAME.json` in inductor's folder), so that it goes when the cache goes.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from envdoctor.cache.manifest import NAMED, Manifest, dump, load
from envdoctor.cache.own_folder import own_folder
from envdoctor.errors import CacheError, UsageError
from envdoctor.facts import whole_file
from envdoctor.facts.host import Host
from envdoctor.facts.owned import stranger_of
from envdoctor.model.frozen import frozen
from envdoctor.probes.caches.compile_caches import history_file, store_folder

SUFFIX = ".tar.zst"


@frozen
class SnapshotStore:
    """The folder of one user's snapshots."""

    folder: Path

    @classmethod
    def of(cls, host: Host) -> "SnapshotStore":
        """Return the store this host's environment names."""
        return cls(folder=store_folder(host))

    def archive(self, name: str) -> Path:
        """Return where the snapshot of that name lies. Raises UsageError for a name that is not a plain file name."""
        return self.folder / f"{checked(name)}{SUFFIX}"

    def find(self, name: str, cwd: Path) -> Path:
        """Return the archive a name or a path means. Raises UsageError, naming what there is, when there is none."""
        path = cwd / name if "/" in name or name.endswith(SUFFIX) else self.archive(name)
        if path.is_file():
            return path
        known = ", ".join(at.name.removesuffix(SUFFIX) for at in self.archives())
        raise UsageError(
            f"there is no snapshot at {path}",
            f"known here: {known}" if known else "`envdoctor cache save NAME` makes one",
        )

    def archives(self) -> Iterator[Path]:
        """Yield the snapshots there are, by name."""
        yield from sorted(self.folder.glob(f"*{SUFFIX}")) if self.folder.is_dir() else ()

    def warm_manifest(self, profile: str) -> Path:
        """Return where the manifest of a profile's last warm-up lies."""
        return history_file(self.folder, checked(profile)).with_name("manifest.json")

    def warm_manifests(self) -> Iterator[Manifest]:
        """Yield the manifests of every profile's last warm-up."""
        for path in sorted(self.folder.glob("warm/*/manifest.json")):
            if found := load(path):
                yield found

    def keep_warm(self, manifest: Manifest, seconds: float | None) -> None:
        """Keep a warm-up's manifest; add what compiling took to the profile's history when it began from nothing."""
        path = self.warm_manifest(manifest.profile)
        write_whole(path, dump(manifest))
        if seconds is None:
            return
        line = {
            "at": manifest.made_at,
            "key": manifest.key_digest,
            "seconds": round(seconds, 1),
            "bytes": manifest.bytes,
        }
        try:
            with whole_file.appending(path.with_name("history.jsonl")) as file:
                file.write(json.dumps(line).encode() + b"\n")
        except OSError as error:
            raise CacheError(
                f"{path.parent}: {error.strerror}", "set ENVDOCTOR_CACHE_STORE to a writable folder"
            ) from error


def checked(name: str) -> str:
    """Return the name if it can be a file name. Raises UsageError otherwise."""
    if not NAMED.fullmatch(name):
        raise UsageError(f"`{name}` is not a name for a snapshot", "use letters, digits, dots, dashes and underscores")
    return name


def label(root: Path, manifest: Manifest) -> Path:
    """Write the manifest into the cache it describes and return where."""
    path = own_folder(root, make=True) / f"{checked(manifest.name)}.json"
    write_whole(path, dump(manifest))
    return path


@frozen
class Labels:
    """What is in a cache about itself."""

    manifests: tuple[Manifest, ...]
    problems: tuple[str, ...] = ()
    """Those that cannot be read or are another user's: they count for nothing, and one of them hinders nothing."""


def labels(root: Path) -> Labels:
    """Return the manifests that are in a cache, and what is wrong with the others."""
    manifests: list[Manifest] = []
    problems: list[str] = []
    try:
        paths = sorted(own_folder(root).glob("*.json"))
    except CacheError as error:
        return Labels(manifests=(), problems=(error.message,))
    for path in paths:
        try:
            if stranger := stranger_of(path):
                problems.append(f"{path} {stranger}; it counts for nothing")
            elif found := load(path):
                manifests.append(found)
        except (CacheError, OSError) as error:
            problems.append(f"{error.message if isinstance(error, CacheError) else error}; remove it")
    return Labels(manifests=tuple(manifests), problems=tuple(problems))


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that a reader sees all of it or none. Raises CacheError when it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        whole_file.write_whole(path, content, 0o644)
    except OSError as error:
        raise CacheError(f"{path}: {error.strerror}", "make its folder writable") from error
