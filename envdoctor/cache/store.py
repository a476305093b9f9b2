"""Where snapshots, the manifests of warm-ups and their history are kept.

Not under ~/.cache: what is kept here exists because caches get deleted. A copy of each manifest is inside the cache
it describes (`.envdoctor/NAME.json` in inductor's folder), so that it goes when the cache goes.
"""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

from envdoctor.cache.manifest import Manifest, dump, load
from envdoctor.catalog.cache_kinds import OWN
from envdoctor.errors import CacheError, UsageError
from envdoctor.facts.host import Host
from envdoctor.model.frozen import frozen
from envdoctor.probes.caches.compile_caches import history_file, store_folder

SUFFIX = ".tar.zst"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")


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
            with path.with_name("history.jsonl").open("a") as file:
                file.write(json.dumps(line) + "\n")
        except OSError as error:
            raise CacheError(
                f"{path.parent}: {error.strerror}", "set ENVDOCTOR_CACHE_STORE to a writable folder"
            ) from error


def checked(name: str) -> str:
    """Return the name if it can be a file name. Raises UsageError otherwise."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"`{name}` is not a name for a snapshot", "use letters, digits, dots, dashes and underscores")
    return name


def label(root: Path, manifest: Manifest) -> Path:
    """Write the manifest into the cache it describes and return where."""
    path = root / OWN / f"{checked(manifest.name)}.json"
    write_whole(path, dump(manifest))
    return path


def labels(root: Path) -> tuple[Manifest, ...]:
    """Return the manifests that are in a cache. Raises CacheError for one that cannot be read."""
    folder = root / OWN
    paths = sorted(folder.glob("*.json")) if folder.is_dir() else []
    return tuple(found for path in paths if (found := load(path)))


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that a reader sees all of it or none. Raises CacheError when it cannot be written."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError as error:
        raise CacheError(f"{path}: {error.strerror}", "make its folder writable") from error
