"""torch's own portable form of a cache, as torch.compiler.save_cache_artifacts returns it, without running torch.

Format of torch/utils/_appending_byte_serializer.py (encoding version 1) and torch/compiler/_cache.py: a CRC-32, the
version, then for each kind its name, the number of artifacts, and key and content of each. torch refuses a blob whose
checksum is wrong; so does this reader.
"""

import base64
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from envdoctor.cache.layout import CacheFile, Root, files
from envdoctor.cache.own_folder import own_folder, require_real
from envdoctor.catalog.cache_kinds import IN_BLOB
from envdoctor.errors import CacheError
from envdoctor.facts.whole_file import beside, create
from envdoctor.model.frozen import frozen
from envdoctor.probes.caches.entry_damage import content_name, damage

_VERSION = 1
_CHECKSUM_BYTES = 4
_KEY = re.compile(r"[A-Za-z0-9_]{1,128}")
_AUTOTUNE = re.compile(r"[A-Za-z0-9_]{1,64}/[A-Za-z0-9_]{1,128}\.best_config")


@frozen
class Artifact:
    """One entry of a blob."""

    kind: str
    """As torch names it: inductor, aot_autograd, autotune, pgo, precompile."""
    key: str
    content: bytes


def read(data: bytes, where: str) -> tuple[Artifact, ...]:
    """Return the artifacts of a blob. Raises CacheError when it is damaged or of another version."""
    body = memoryview(data)[_CHECKSUM_BYTES:]
    if len(data) < _CHECKSUM_BYTES + 8 or zlib.crc32(body).to_bytes(4, "big") != data[:_CHECKSUM_BYTES]:
        raise CacheError(f"{where} is not a cache of torch, or is damaged: its checksum is wrong", "save it again")
    cursor = _Cursor(data, _CHECKSUM_BYTES, where)
    if (version := cursor.number()) != _VERSION:
        raise CacheError(
            f"{where} has the encoding version {version}, this reads {_VERSION}", "load it with torch itself"
        )
    found: list[Artifact] = []
    while not cursor.finished:
        kind = cursor.text()
        for _ in range(cursor.number()):
            key = cursor.text()
            found.append(Artifact(kind=kind, key=key, content=cursor.raw()))
    return tuple(found)


class _Cursor:
    def __init__(self, data: bytes, start: int, where: str) -> None:
        self._data, self._at, self._where = data, start, where

    @property
    def finished(self) -> bool:
        return self._at == len(self._data)

    def _take(self, size: int) -> bytes:
        if size > len(self._data) - self._at:
            raise CacheError(f"{self._where} ends too early", "save it again")
        taken = self._data[self._at : self._at + size]
        self._at += size
        return taken

    def number(self) -> int:
        return int.from_bytes(self._take(8), "big")

    def raw(self) -> bytes:
        return self._take(self.number())

    def text(self) -> str:
        try:
            return base64.b64decode(self.raw(), validate=True).decode()
        except ValueError as error:
            raise CacheError(f"{self._where}: a name in it cannot be read", "save it again") from error


def merge(artifacts: Iterable[Artifact], inductor: Path) -> Mapping[str, int]:
    """Write artifacts into inductor's folder and return outcome -> number.

    Written as torch's populate_cache writes them, except that Triton kernels bundled in a graph are unpacked by torch
    when the graph is first used: that needs the graph to be unpickled, which is running it. Nothing is overwritten.
    Raises CacheError for a key that is not a plain name.
    """
    outcomes: dict[str, int] = {}
    # Every name first: a file that is refused leaves nothing.
    placed = [(artifact, _path(artifact)) for artifact in artifacts]
    own = own_folder(inductor, make=True)
    for _, path in placed:
        if path is not None:
            require_real(inductor, path)
    for artifact, path in placed:
        if path is None:
            outcome = f"skipped ({artifact.kind})"
        else:
            outcome = "added" if _write_new(inductor / path, artifact.content, own) else "present"
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
    return outcomes


def _path(artifact: Artifact) -> str | None:
    """Return where torch looks for it, or None for a kind that is outside this folder."""
    if artifact.kind not in IN_BLOB:
        return None
    pattern = _AUTOTUNE if artifact.kind == "autotune" else _KEY
    if not pattern.fullmatch(artifact.key):
        what = f"{artifact.key[:200]!r} is not a key of torch's {artifact.kind} cache"
        raise CacheError(what, "do not trust that file")
    if artifact.kind == "autotune":
        return artifact.key
    name = content_name(artifact.content)
    if artifact.kind == "inductor":
        return f"fxgraph/{artifact.key[1:3]}/{artifact.key}/{name}"
    return f"aotautograd/{artifact.key}/{name}"


def _write_new(target: Path, content: bytes, own: Path) -> bool:
    temporary = beside(own / "import")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(create(temporary, 0o600), "wb") as file:
            file.write(content)
        os.link(temporary, target)
    except FileExistsError:
        return False
    except OSError as error:
        raise CacheError(f"{target}: {error.strerror}", "import as the cache's owner") from error
    finally:
        temporary.unlink(missing_ok=True)
    return True


def export(root: Root, out: BinaryIO) -> Mapping[str, int]:
    """Write inductor's graphs and autotune results as one blob and return kind -> number; damaged ones are left out."""
    found: dict[str, list[CacheFile]] = {kind: [] for kind in IN_BLOB}
    for file in files([root]):
        kind = next((kind for kind, ours in IN_BLOB.items() if ours == file.kind), "")
        if kind and _key(kind, file.path) and not damage(root.path / file.path, file.kind):
            found[kind].append(file)
    checksum = 0
    out.write(bytes(_CHECKSUM_BYTES))
    for piece in _pieces(root.path, {kind: entries for kind, entries in found.items() if entries}):
        checksum = zlib.crc32(piece, checksum)
        out.write(piece)
    out.seek(0)
    out.write(checksum.to_bytes(_CHECKSUM_BYTES, "big"))
    return {kind: len(entries) for kind, entries in found.items() if entries}


def _key(kind: str, path: str) -> str:
    """Return the key of a file, or nothing when it does not lie where that kind lies."""
    parts = path.split("/")
    if kind == "autotune":
        return path if _AUTOTUNE.fullmatch(path) else ""
    depth = {"inductor": 4, "aot_autograd": 3}[kind]
    return parts[-2] if len(parts) == depth else ""


def _pieces(folder: Path, found: Mapping[str, list[CacheFile]]) -> Iterator[bytes]:
    yield _number(_VERSION)
    for kind, entries in found.items():
        yield _text(kind) + _number(len(entries))
        for file in entries:
            content = (folder / file.path).read_bytes()
            yield _text(_key(kind, file.path)) + _number(len(content))
            yield content


def _number(value: int) -> bytes:
    return value.to_bytes(8, "big")


def _text(value: str) -> bytes:
    encoded = base64.b64encode(value.encode())
    return _number(len(encoded)) + encoded
