"""Taking a snapshot: list, hash, write."""

import hashlib
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from envdoctor import __version__
from envdoctor.cache import archive
from envdoctor.cache.key_parts import KeyPart
from envdoctor.cache.layout import CacheFile, Root, count_entries, files, install_order
from envdoctor.cache.manifest import SCHEMA, Manifest, StoredFile
from envdoctor.errors import CacheError
from envdoctor.model.frozen import frozen
from envdoctor.probes.caches.entry_damage import damage


@frozen
class Purpose:
    """What a manifest is made for."""

    name: str
    profile: str = ""
    profile_digest: str = ""
    cold_seconds: float = 0.0
    proven: bool = False


def describe(roots: Sequence[Root], key: Iterable[KeyPart], purpose: Purpose) -> Manifest:
    """Return the manifest of what is in those roots now.

    An entry with a damaged file is left out whole and named. Raises CacheError when a file cannot be read.
    """
    folders = {root.kind: root.path for root in roots}
    found = install_order(files(roots))
    problems = {
        (file.root, file.entry): f"{file.root}/{file.path}: {problem}"
        for file in found
        if (problem := damage(folders[file.root] / file.path, file.kind))
    }
    taken = [file for file in found if (file.root, file.entry) not in problems]
    stored = tuple(entry for file in taken if (entry := _store(folders[file.root], file)))
    return Manifest(
        schema=SCHEMA,
        name=purpose.name,
        made_at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        made_by=__version__,
        key=tuple(key),
        folders={kind: str(path) for kind, path in folders.items()},
        entries=dict(count_entries(taken)),
        files=stored,
        profile=purpose.profile,
        profile_digest=purpose.profile_digest,
        cold_seconds=purpose.cold_seconds,
        proven=purpose.proven,
        left_out=tuple(sorted(problems.values())),
    )


def _store(folder: Path, file: CacheFile) -> StoredFile | None:
    try:
        with (folder / file.path).open("rb") as source:
            sha256 = hashlib.file_digest(source, "sha256").hexdigest()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CacheError(f"{folder / file.path}: {error.strerror}", "save as the cache's owner") from error
    return StoredFile(
        root=file.root,
        path=file.path,
        size=file.size,
        sha256=sha256,
        modified=file.modified,
        mode=file.mode,
    )


def save(path: Path, manifest: Manifest, level: int = archive.LEVEL) -> str:
    """Write the archive of a manifest and return its digest."""

    def open_file(file: StoredFile) -> BinaryIO:
        try:
            return (Path(manifest.folders[file.root]) / file.path).open("rb")
        except OSError as error:
            raise CacheError(
                f"{file.root}/{file.path} went away while it was being saved; no snapshot was written",
                "save again when nothing compiles or cleans up",
            ) from error

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return archive.write(path, manifest, open_file, level)
    except OSError as error:
        raise CacheError(f"{path}: {error.strerror}", "choose a folder with room: ENVDOCTOR_CACHE_STORE") from error
