"""What a cache or a snapshot holds and under which key it was filled."""

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from envdoctor.cache.key_parts import KeyPart, digest
from envdoctor.catalog.cache_kinds import NAMES, OWN, kind_of
from envdoctor.errors import CacheError
from envdoctor.facts.regular_file import read_regular
from envdoctor.model.codec import CodecError, decode, encode
from envdoctor.model.frozen import field, frozen
from envdoctor.standards.bounded_json import loads

SCHEMA = 1
NAME = "manifest.json"
# One of 100,000 files has 20 MB, and 800,000 values.
MAXIMUM = 32 << 20
_MAXIMUM_VALUES = 1_000_000
NAMED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")
"""A name that a snapshot, and so a file, can have."""
_SHA256 = re.compile(r"[0-9a-f]{64}")
_LONGEST_PATH = 1024
_LONGEST_NAME = 255


@frozen
class StoredFile:
    """One file, as it was when it was written down."""

    root: str
    path: str
    size: int
    sha256: str
    modified: int
    """Nanoseconds since the epoch."""
    mode: int


@frozen
class Manifest:
    """A cache at one moment: its key, its files, where it lay."""

    schema: int
    name: str
    """Of the snapshot, or of the profile whose warm-up filled the cache."""
    made_at: str
    """UTC, ISO 8601."""
    made_by: str
    """Version of envdoctor."""
    key: tuple[KeyPart, ...]
    folders: Mapping[str, str]
    """Root kind -> the folder it was taken from."""
    entries: Mapping[str, int]
    """Kind of entry -> number."""
    files: tuple[StoredFile, ...]
    profile: str = ""
    profile_digest: str = ""
    """sha256 of the profile file and its lock, at that time."""
    cold_seconds: float = 0.0
    """What compiling all of it took, when a warm-up measured it."""
    proven: bool = False
    """Whether the second run of a warm-up compiled nothing, with these files and this key."""
    left_out: tuple[str, ...] = field(default=())
    """Files that were damaged or being written and were not taken, as "root/path: why"."""

    @property
    def bytes(self) -> int:
        """Return the size of all files together."""
        return sum(file.size for file in self.files)

    @property
    def key_digest(self) -> str:
        """Return the digest that caches of one key share."""
        return digest(self.key)


def dump(manifest: Manifest) -> bytes:
    """Return the manifest as one JSON document, one file a line so that a person can read and compare it."""
    document = encode(manifest)
    files = document.pop("files")
    head = json.dumps(document, indent=1, sort_keys=True)
    lines = ",\n".join(json.dumps(entry, sort_keys=True) for entry in files)
    return f'{head[:-2]},\n "files": [\n{lines}\n ]\n}}\n'.encode()


def fingerprint(text: bytes) -> str:
    """Return the digest that names a snapshot: sha256 of its manifest, which holds the sha256 of every file."""
    return hashlib.sha256(text).hexdigest()


def parse(text: bytes, where: str) -> Manifest:
    """Read a manifest and check every path in it. Raises CacheError naming the mistake."""
    try:
        data: Any = loads(text, _MAXIMUM_VALUES)
        manifest: Manifest = decode(Manifest, data)
    except ValueError as error:
        problem = str(error) if isinstance(error, CodecError) else f"no JSON document: {error}"
        raise CacheError(f"{where}: its manifest cannot be read: {problem}", "make the snapshot again") from error
    if not NAMED.fullmatch(manifest.name):
        raise CacheError(f"{where}: {manifest.name[:200]!r} is not a name for a snapshot", "make the snapshot again")
    if manifest.schema != SCHEMA:
        raise CacheError(f"{where}: schema {manifest.schema}, this version reads {SCHEMA}", "update envdoctor")
    words = (manifest.made_at, manifest.profile, *(part.name for part in manifest.key))
    if not all(map(str.isprintable, words)):
        raise CacheError(f"{where}: it holds control characters; nothing was taken from it", "make the snapshot again")
    seen: set[tuple[str, str]] = set()
    for file in manifest.files:
        if problem := _wrong(file) or ("listed twice" if (file.root, file.path) in seen else ""):
            raise CacheError(f"{where}: {file.root}/{file.path[:200]!r}: {problem}; nothing was taken from it", "")
        seen.add((file.root, file.path))
    for file in manifest.files:
        if any((file.root, str(parent)) in seen for parent in PurePosixPath(file.path).parents):
            problem = "a file of that list is where its folder should be"
            raise CacheError(f"{where}: {file.root}/{file.path[:200]!r}: {problem}; nothing was taken from it", "")
    return manifest


def load(path: Path) -> Manifest | None:
    """Read a manifest file; None when there is none."""
    try:
        return parse(read_regular(path, MAXIMUM), str(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CacheError(f"{path}: {error.strerror}", "make it readable, or move it away") from error


def _wrong(file: StoredFile) -> str:
    parts = PurePosixPath(file.path).parts
    if file.root not in NAMES:
        return "no root of that name"
    if not parts or file.path.startswith("/") or "/".join(parts) != file.path or len(file.path) > _LONGEST_PATH:
        return "no plain relative path"
    if ".." in parts or any(ord(character) < 32 or character == "\\" for character in file.path):
        return "it leads out of its folder, or hides where it leads"
    if parts[0] == OWN:
        return "it would replace envdoctor's own records"
    if not _can_be_named(parts):
        return "no name a file can have"
    possible = file.size >= 0 and 0 <= file.modified < 1 << 63 and not file.mode & ~0o777
    return "" if possible and _SHA256.fullmatch(file.sha256) else "impossible size, time, hash or mode"


def _can_be_named(parts: tuple[str, ...]) -> bool:
    try:
        return all(len(part.encode("utf-8", "surrogateescape")) <= _LONGEST_NAME for part in parts)
    except UnicodeEncodeError:
        return False


def graph_files(manifest: Manifest) -> list[StoredFile]:
    """Return the files that a hit needs: the graphs."""
    return [file for file in manifest.files if kind_of(file.root, file.path).endswith("graph")]
