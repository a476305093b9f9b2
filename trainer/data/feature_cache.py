"""The target's features of rows, on disk: made in the first epoch, read in the later ones.

FOLDER/KEY/               KEY is a digest of all that the features depend on: target weights, rows, layers, dtype
    about.json            the same in words
    NAME.features         features of some rows, one after the other, [length, W] each, in the working dtype
    NAME.json             which rows, where, and the sha256 of each; written last, so a shard without it does not count

A shard is written by one worker and never changed. A row is checked against its sha256 when it is first read. Features
of padding are not kept: no query sees them, and they are read as zeros.
"""

import fcntl
import hashlib
import json
import os
import shutil
import threading
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

import torch

from trainer.errors import ConfigError, OutputError
from trainer.writing import folder_bytes, write_whole

_INDEX, _FEATURES, _PARTIAL = ".json", ".features", ".partial"
_CURE = "make room and go on with --resume: what was written counts. Or leave cache.path empty"
SHARD_BYTES = 1 << 30
"""A shard is closed once it holds this much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Where one row is."""

    shard: str
    offset: int
    """Bytes from the shard's start."""
    length: int
    """Tokens."""
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSpec:
    """What a run's cache is for."""

    folder: Path
    about: Mapping[str, object]
    """All that the features depend on."""
    width: int
    """W, channels of a token."""
    dtype: torch.dtype
    needed: int
    """Bytes of all rows of the run."""
    limit: int
    """Bytes that the folder may hold."""

    @property
    def place(self) -> Path:
        """The folder of this key."""
        told = json.dumps(self.about, sort_keys=True)
        return self.folder / hashlib.sha256(told.encode()).hexdigest()[:16]

    @property
    def token_bytes(self) -> int:
        """Bytes of one token's features."""
        return self.width * self.dtype.itemsize


def require_room(spec: CacheSpec) -> str:
    """Return the plan in words; raises ConfigError when the rows do not fit in the limit or on the disk."""
    try:
        spec.place.mkdir(parents=True, exist_ok=True)
        sweep(spec.place)
        free = shutil.disk_usage(spec.place).free
        here, everything = folder_bytes(spec.place), folder_bytes(spec.folder)
    except OSError as error:
        raise ConfigError(
            f"cache.path: {error.filename or spec.folder}: {error.strerror}",
            "give a folder that can be made, read and written",
        ) from error
    # Another run may have written between the two looks.
    others = max(everything - here, 0)
    if spec.needed + others > spec.limit:
        more = f", beside {others / 1e9:,.2f} GB of other keys" if others else ""
        raise ConfigError(
            f"cache.size_gb: the features of this run's rows take {spec.needed / 1e9:,.2f} GB{more}, and"
            f" {spec.folder} may hold {spec.limit / 1e9:,.2f} GB",
            "raise cache.size_gb, remove the folders of other keys, or train without cache.path",
        )
    if spec.needed - here > free:
        raise ConfigError(
            f"cache.path: {spec.folder} still takes {(spec.needed - here) / 1e9:,.2f} GB of features, and"
            f" {free / 1e9:,.2f} GB are free on its file system",
            "make room, give a folder on another file system, or train without cache.path",
        )
    about = spec.place / "about.json"
    if not about.is_file():
        write_whole(about, json.dumps(spec.about, indent=1, sort_keys=True) + "\n", _CURE, shared=True)
    return f"features: {spec.needed / 1e9:,.2f} GB in {spec.place}, {here / 1e9:,.2f} GB of them there"


def sweep(place: Path) -> None:
    """Remove shards that nobody writes any more and that have no index: what a killed run left."""
    unfinished = [shard for shard in place.glob(f"*{_FEATURES}") if not shard.with_suffix(_INDEX).is_file()]
    # A name with a dot in front is not a shard's: nobody holds a lock on it.
    partial = [left for left in place.glob(f"*{_PARTIAL}") if not left.name.startswith(".")]
    for left in [*partial, *unfinished]:
        # Its writer went on or holds it, another run swept it, or it is another user's.
        with suppress(OSError), left.open("rb") as held:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Its writer may have finished between the two looks.
            if not left.with_suffix(_INDEX).is_file():
                left.unlink(missing_ok=True)


def _new(path: Path) -> FileIO:
    """Open a new file, locked so that no other run sweeps it."""
    while True:
        # Without a buffer: a full disk is told at the write, and what is written can be cut back.
        file = path.open("wb", buffering=0)
        fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_nlink:
            return file
        file.close()  # swept before it was locked


class FeatureReader:
    """Rows of the whole shards of a folder, memory-mapped."""

    def __init__(self, spec: CacheSpec) -> None:
        """Read the indexes that are there."""
        self.spec = spec
        self.entries: dict[int, Entry] = {}
        self.refused: list[str] = []
        """What was found damaged, in words; those rows are made again."""
        self._more: dict[int, list[Entry]] = {}
        """Other places of rows that are in `entries`: two workers kept them, or one was damaged and made again."""
        self._maps: dict[str, torch.Tensor] = {}
        self._seen: set[str] = set()
        self._checked: set[int] = set()
        self._changed = 0
        self._lock = threading.Lock()
        spec.place.mkdir(parents=True, exist_ok=True)
        self.look()

    def look(self) -> None:
        """Read the indexes that were added since."""
        with self._lock:
            changed = self.spec.place.stat().st_mtime_ns
            if changed == self._changed:
                return
            self._changed = changed
            for index in sorted(self.spec.place.glob(f"*{_INDEX}")):
                if index.name not in self._seen and index.name != "about.json":
                    self._seen.add(index.name)
                    self._add(index)

    def _add(self, index: Path) -> None:
        shard = index.with_suffix(_FEATURES)
        try:
            told = json.loads(index.read_text(encoding="utf-8"))
            rows, size = told["rows"], told["size"]
            found = {
                int(row): Entry(shard=shard.name, offset=int(offset), length=int(length), sha256=str(sha256))
                for row, offset, length, sha256 in rows
            }
            wrong = "" if told["sha256"] == rows_digest(rows) else "its rows are not those that were written"
            if shard.stat().st_size != size:
                wrong = f"{shard.name} has {shard.stat().st_size} bytes, {size} were written"
        except (OSError, ValueError, KeyError, TypeError) as error:
            self.refused.append(f"{index}: {error}")
            return
        if wrong:
            self.refused.append(f"{index}: {wrong}")
        else:
            for row, entry in found.items():
                # The place that was checked stays.
                if self.entries.setdefault(row, entry) is not entry:
                    self._more.setdefault(row, []).append(entry)

    def holds(self, rows: Sequence[tuple[int, int]]) -> bool:
        """Return whether each (row, tokens) can be read; looks for new shards when one cannot."""
        if all(self._fits(row, length) for row, length in rows):
            return True
        self.look()
        return all(self._fits(row, length) for row, length in rows)

    def _fits(self, row: int, length: int) -> bool:
        found = self.entries.get(row)
        return found is not None and found.length >= length

    def read(self, row: int, into: torch.Tensor) -> bool:
        """Copy a row's features to `into` [length, W]; returns False for one that is damaged, and forgets it."""
        while (entry := self.entries.get(row)) is not None:
            held = self._map(entry.shard)[entry.offset : entry.offset + entry.length * self.spec.token_bytes]
            if row in self._checked or hashlib.sha256(memoryview(held.numpy())).hexdigest() == entry.sha256:
                self._checked.add(row)
                into.copy_(held.view(self.spec.dtype).view(entry.length, self.spec.width)[: into.shape[0]])
                return True
            self.refused.append(f"{self.spec.place / entry.shard}: row {row} does not match its sha256")
            self._forget(row)
        return False

    def _forget(self, row: int) -> None:
        """Go on with another place of a row, where there is one."""
        with self._lock:
            more = self._more.get(row)
            if more:
                self.entries[row] = more.pop()
            else:
                del self.entries[row]

    def _map(self, name: str) -> torch.Tensor:
        if name not in self._maps:
            place = self.spec.place / name
            self._maps[name] = torch.from_file(str(place), shared=False, size=place.stat().st_size, dtype=torch.uint8)
        return self._maps[name]


class FeatureWriter:
    """Adds rows to shards of its own."""

    def __init__(self, spec: CacheSpec, shard_bytes: int = SHARD_BYTES) -> None:
        """Start without a shard."""
        self.spec, self.shard_bytes = spec, shard_bytes
        self._open: _Shard | None = None

    def add(self, row: int, features: torch.Tensor) -> None:
        """Append a row's features [length, W], on the CPU.

        Raises OutputError when the disk does not take them; the rows before it count.
        """
        try:
            if self._open is None:
                self._open = _Shard(self.spec.place)
            self._open.add(row, features)
        except OSError as error:
            with suppress(OutputError):
                self.flush()
            raise self._error(error) from error
        if self._open.size >= self.shard_bytes:
            self.flush()

    def flush(self) -> None:
        """Close the open shard, if there is one: from now on its rows count.

        Raises OutputError when the disk does not take it; as many of its rows count as there is room for.
        """
        shard, self._open = self._open, None
        if shard is None:
            return
        try:
            shard.finish()
        except OSError as error:
            raise self._error(error) from error

    def _error(self, error: OSError) -> OutputError:
        return OutputError(f"{self.spec.place}: features cannot be written: {error.strerror or error}", _CURE)


class _Shard:
    """A shard that is being written, locked so that no other run sweeps it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.name = folder, uuid.uuid4().hex[:16]
        self._partial = folder / f"{self.name}{_PARTIAL}"
        self._file = _new(self._partial)
        self.size = 0
        self._rows: list[tuple[int, int, int, str]] = []

    def add(self, row: int, features: torch.Tensor) -> None:
        """Append a row; raises OSError, and keeps none of its bytes, when the disk does not take all of them."""
        data = memoryview(features.contiguous().view(torch.uint8).numpy()).cast("B")
        try:
            _write(self._file, data)
        except OSError:
            os.ftruncate(self._file.fileno(), self.size)
            raise
        self._rows.append((row, self.size, features.shape[0], hashlib.sha256(data).hexdigest()))
        self.size += len(data)

    def finish(self) -> None:
        """Make the rows count.

        Where the disk has no room for the index, the last rows make room for it: those that are left count, and the
        OSError is raised all the same.
        """
        failed: OSError | None = None
        features = self.folder / f"{self.name}{_FEATURES}"
        with self._file:
            try:
                os.fsync(self._file.fileno())
                self._partial.rename(features)
            except OSError:
                self._partial.unlink(missing_ok=True)
                raise
            while self._rows:
                try:
                    self._index()
                    break
                except OSError as error:
                    failed = failed or error
                    self._shorten()
            else:
                features.unlink(missing_ok=True)
        if failed is not None:
            raise failed

    def _index(self) -> None:
        told = {"size": self.size, "rows": self._rows, "sha256": rows_digest(self._rows)}
        index = self.folder / f"{self.name}{_INDEX}{_PARTIAL}"
        with _new(index) as file:
            try:
                _write(file, memoryview(json.dumps(told).encode()))
                os.fsync(file.fileno())
                index.rename(self.folder / f"{self.name}{_INDEX}")
            except OSError:
                index.unlink(missing_ok=True)
                raise

    def _shorten(self) -> None:
        """Give up the last sixteenth of the rows, at least one."""
        first = len(self._rows) - (len(self._rows) // 16 or 1)
        self.size = self._rows[first][1]
        del self._rows[first:]
        os.ftruncate(self._file.fileno(), self.size)


def _write(file: FileIO, data: memoryview) -> None:
    """Write all of `data` to an unbuffered file."""
    while data:
        data = data[file.write(data) :]


def rows_digest(rows: Sequence[Sequence[object]]) -> str:
    """Return the sha256 of an index's rows."""
    return hashlib.sha256(json.dumps([list(row) for row in rows]).encode()).hexdigest()
