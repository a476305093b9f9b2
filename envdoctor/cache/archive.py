"""The file format of a snapshot: a tar of regular files in zstd, the manifest first, then each content once.

`zstd -dc NAME.tar.zst | tar -xO manifest.json` shows the manifest without this program. Contents are named by their
sha256 (`blobs/HASH`), never by where they go: a path of the archive is not used for anything, so there is none to
traverse with. The reader takes plain USTAR headers only, in exactly the manifest's order; a link, a device, a PAX or
GNU extension, another name or another size ends it.
"""

import contextlib
import hashlib
import os
import tarfile
from collections.abc import Callable, Iterator
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

import zstandard

from envdoctor.cache.manifest import MAXIMUM, NAME, Manifest, StoredFile, dump, parse
from envdoctor.cache.read_ahead import ReadAhead
from envdoctor.errors import CacheError
from envdoctor.facts.regular_file import open_regular
from envdoctor.facts.whole_file import beside, create

_BLOCK = 512
_CHUNK = 1 << 20
LEVEL = 3
_MAXIMUM_MANIFEST = MAXIMUM


def write(path: Path, manifest: Manifest, open_file: Callable[[StoredFile], BinaryIO], level: int = LEVEL) -> str:
    """Write a snapshot and return the digest of its manifest; the file appears whole or not at all.

    Raises CacheError when a file is not what the manifest says any more.
    """
    text = dump(manifest)
    temporary = beside(path)
    try:
        # It is code that somebody will run: never one that others may change, whatever the umask.
        with os.fdopen(create(temporary, 0o644), "wb") as raw:
            compressor = zstandard.ZstdCompressor(level=level, threads=_threads(), write_checksum=True)
            with compressor.stream_writer(raw, closefd=False) as out:
                _write_all(out, manifest, text, open_file)
            raw.flush()
            os.fsync(raw.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return hashlib.sha256(text).hexdigest()


def _threads() -> int:
    return len(os.sched_getaffinity(0))


def _write_all(out: BinaryIO, manifest: Manifest, text: bytes, open_file: Callable[[StoredFile], BinaryIO]) -> None:
    out.write(_header(NAME, len(text)))
    out.write(text)
    out.write(_padding(len(text)))
    for file in distinct(manifest):
        out.write(_header(f"blobs/{file.sha256}", file.size))
        _copy(out, file, open_file)
        out.write(_padding(file.size))
    out.write(bytes(2 * _BLOCK))


def distinct(manifest: Manifest) -> Iterator[StoredFile]:
    """Yield the first file of each content, in the manifest's order: what the archive holds after the manifest."""
    seen: set[str] = set()
    for file in manifest.files:
        if file.sha256 not in seen:
            seen.add(file.sha256)
            yield file


def _copy(out: BinaryIO, file: StoredFile, open_file: Callable[[StoredFile], BinaryIO]) -> None:
    hasher, left = hashlib.sha256(), file.size
    with open_file(file) as source:
        while left and (chunk := source.read(min(_CHUNK, left))):
            hasher.update(chunk)
            out.write(chunk)
            left -= len(chunk)
        grown = source.read(1)
    if left or grown or hasher.hexdigest() != file.sha256:
        raise CacheError(
            f"{file.root}/{file.path} changed while it was being saved; no snapshot was written",
            "save again when nothing compiles",
        )


def _header(name: str, size: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, 0o644
    try:
        return info.tobuf(tarfile.USTAR_FORMAT)
    except ValueError as error:
        raise CacheError(f"{name}: {size} bytes are more than one file of a snapshot can have", "") from error


def _padding(size: int) -> bytes:
    return bytes(-size % _BLOCK)


class Reader:
    """Reads one snapshot from front to back."""

    def __init__(self, stream: ReadAhead, where: str) -> None:
        """Start on an open archive; `where` names it in errors."""
        self.where = where
        self._stream = stream

    def manifest(self) -> tuple[Manifest, bytes]:
        """Return the manifest and its text. Raises CacheError for anything that is not one."""
        size = self._expect(NAME, None)
        if size > _MAXIMUM_MANIFEST:
            raise self._refuse(f"its manifest claims {size} bytes")
        text = self._exactly(size)
        self._skip_padding(size)
        return parse(text, self.where), text

    def content(self, file: StoredFile, out: BinaryIO) -> None:
        """Copy one content to `out`. Raises CacheError when it is not, byte for byte, what the manifest says."""
        self._expect(f"blobs/{file.sha256}", file.size)
        hasher, left = hashlib.sha256(), file.size
        while left:
            chunk = self._exactly(min(_CHUNK, left))
            hasher.update(chunk)
            out.write(chunk)
            left -= len(chunk)
        if hasher.hexdigest() != file.sha256:
            raise self._refuse(f"{file.root}/{file.path} is not what the manifest says (sha256)")
        self._skip_padding(file.size)

    def end(self) -> None:
        """Check that nothing follows the last content."""
        if self._exactly(2 * _BLOCK).strip(b"\0") or self._read(1):
            raise self._refuse("something follows the last file of its manifest")

    def _expect(self, name: str, size: int | None) -> int:
        try:
            member = tarfile.TarInfo.frombuf(self._exactly(_BLOCK), "utf-8", "strict")
        except tarfile.HeaderError as error:
            raise self._refuse(f"no tar header where {name} should be: {error}") from error
        if member.type != tarfile.REGTYPE or member.name != name or size not in (None, member.size):
            kind = "" if member.type == tarfile.REGTYPE else f" (type {member.type!r})"
            raise self._refuse(f"{name} should follow, found {member.name[:200]!r}{kind} of {member.size} bytes")
        return member.size

    def _skip_padding(self, size: int) -> None:
        self._exactly(-size % _BLOCK)

    def _exactly(self, size: int) -> bytes:
        pieces, left = [], size
        while left:
            piece = self._read(left)
            if not piece:
                raise self._refuse("it ends too early")
            pieces.append(piece)
            left -= len(piece)
        return b"".join(pieces)

    def _read(self, size: int) -> bytes:
        try:
            return self._stream.read(size)
        except zstandard.ZstdError as error:
            raise self._refuse(f"zstd: {error}") from error

    def _refuse(self, problem: str) -> CacheError:
        return CacheError(
            f"{self.where} is damaged or forged: {problem}; nothing was taken from it",
            "make the snapshot again with `envdoctor cache save`",
        )


@contextlib.contextmanager
def reading(path: Path, accept: Callable[[BufferedReader], object] | None = None) -> Iterator[Reader]:
    """Open a snapshot. Raises CacheError when it cannot be opened, and what `accept` raises, which sees it first.

    accept: takes the open file, before anything of it is unpacked, and leaves it at its start.
    """
    try:
        raw = open_regular(path)
    except OSError as error:
        raise CacheError(f"{path}: {error.strerror}", "`envdoctor cache list` shows the snapshots there are") from error
    with raw:
        if accept is not None:
            accept(raw)
        with contextlib.closing(ReadAhead(raw)) as stream:
            yield Reader(stream, str(path))
