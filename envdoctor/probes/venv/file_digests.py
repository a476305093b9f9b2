"""Hashing the files of an environment: in parallel, what is not remembered, and nothing that a link leads out to."""

import binascii
import errno
import os
import stat
import time
from collections import deque
from collections.abc import Callable, Container, Iterable, Mapping
from functools import cache
from types import TracebackType
from typing import Any, NamedTuple, Self

from envdoctor.facts.on_failure import on_failure
from envdoctor.model.frozen import field, mutable
from envdoctor.probes.venv import digest_memo
from envdoctor.probes.venv.digest_memo import DigestMemo, content_key, key_of

Progress = Callable[[int, int], None]
"""Called with (bytes done, bytes in all)."""

_TICK_SECONDS = 0.1
_MAXIMUM_THREADS = 32
_LARGE = 1024 * 1024
_TRIES = 3
_URL_SAFE = bytes.maketrans(b"+/", b"-_")
# The lengths of their base64 text, unpadded, as RECORD writes it.


class FileToHash(NamedTuple):
    """One file to hash. A plain tuple: there are tens of thousands."""

    algorithm: str
    key: bytes
    path: str
    size: int


@mutable
class FileDigests:
    """Digests of the environment's files, those of earlier runs included."""

    memo: DigestMemo
    roots: tuple[str, ...]
    """Real folders, with a final slash, into which a file that is a symlink may lead."""
    proven: Mapping[bytes, bytes] = field(default_factory=dict)
    """Content key -> sha256 that was read from the file before; counts where the file has not been read since."""
    ahead: Container[bytes] = ()
    """Those of the content keys in `proven` that this run has read, while the environment was being built."""
    problems: dict[tuple[str, bytes], str] = field(default_factory=dict)
    """(algorithm, key) -> why the file could not be hashed."""
    started_ns: int = field(default_factory=time.time_ns)

    def get(self, algorithm: str, key: bytes) -> bytes | None:
        """Return the base64 digest of the file with that key; None when it is not known (yet)."""
        digest = self.memo.known.get(algorithm, {}).get(key)
        return self.proven.get(content_key(key)) if digest is None and algorithm == "sha256" else digest

    def remember(self, keys: Iterable[tuple[str, bytes]]) -> None:
        """Write down what was read of these (algorithm, key) and nothing else."""
        kept: dict[str, dict[bytes, bytes]] = {}
        for algorithm, key in keys:
            digest = self.memo.known.get(algorithm, {}).get(key)
            if digest is not None and digest_memo.settled(key, self.started_ns):
                kept.setdefault(algorithm, {})[key] = digest
        digest_memo.save(self.memo, kept)


def usable(stated: str) -> str:
    """Return the algorithm of RECORD's hash field; empty when the field is none that a file can be compared with."""
    algorithm, _, text = stated.partition("=")
    return algorithm if _lengths().get(algorithm) == len(text.rstrip("=")) else ""


class Hashing:
    """A block in which files are hashed in the background; at its end `into` knows each, or why it does not.

    An exception that leaves the block stops the threads at their next chunk.
    """

    def __init__(self, into: FileDigests, progress: Progress | None = None) -> None:
        """Take where digests go, and what to tell how far it is (from the calling thread)."""
        self._into = into
        self._progress = progress
        self._threads = min(len(os.sched_getaffinity(0)), _MAXIMUM_THREADS)
        # Every check imports this module, few hash; the import brings logging along.
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

        self._pool = ThreadPoolExecutor(self._threads)
        self._work = _Work(into=into, chunk=max(64, 16 * self._threads) * 1024)
        self._asked: set[tuple[str, bytes]] = set()
        self._total = 0

    def __enter__(self) -> Self:
        """Start the threads; they wait for files."""
        # Small files hold the interpreter's lock most of the time, and two threads on them wait for each other: so one
        # thread prefers them, the others prefer the large ones.
        with on_failure(self._work.close):
            self._running = [
                self._pool.submit(self._work.run, prefer_large=number > 0) for number in range(self._threads)
            ]
        return self

    def add(self, files: Iterable[FileToHash]) -> list[FileToHash]:
        """Take more files and return those that were not asked for before; each (algorithm, key) is hashed once."""
        new = []
        for item in files:
            if (item.algorithm, item.key) not in self._asked:
                self._asked.add((item.algorithm, item.key))
                self._total += item.size
                new.append(item)
        self._work.add(new)
        return new

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for the rest."""
        self._work.stopped = kind is not None
        self._work.close()
        from concurrent.futures import wait  # noqa: PLC0415

        try:
            pending = set(self._running)
            while pending:
                _, pending = wait(pending, timeout=_TICK_SECONDS if self._progress else None)
                if self._progress is not None and self._total:
                    self._progress(min(self._work.done, self._total), self._total)
        finally:
            self._work.stopped = True
            self._pool.shutdown()
        for future in self._running:
            future.result()


class _Work:
    """Two queues that several threads empty: one of large files, the largest of what came together first."""

    def __init__(self, *, into: FileDigests, chunk: int) -> None:
        self.into = into
        # A thread holds the interpreter's lock for some microseconds a chunk: more threads, longer chunks. Short ones
        # stay in the processor's cache.
        self.chunk = chunk
        self.large: deque[FileToHash] = deque()
        self.small: deque[FileToHash] = deque()
        import threading  # noqa: PLC0415 - few checks hash

        self.news = threading.Condition()
        self.closed = False
        self.stopped = False
        self.done = 0  # bytes; an addition lost between two threads only blurs the progress

    def add(self, files: list[FileToHash]) -> None:
        with self.news:
            self.large += sorted((item for item in files if item.size >= _LARGE), key=lambda item: -item.size)
            self.small += [item for item in files if item.size < _LARGE]
            self.news.notify_all()

    def close(self) -> None:
        with self.news:
            self.closed = True
            self.news.notify_all()

    def run(self, *, prefer_large: bool) -> None:
        queues = (self.large, self.small) if prefer_large else (self.small, self.large)
        buffer = memoryview(bytearray(self.chunk))
        while (item := self._next(queues)) is not None:
            try:
                digest = self._digest(item, buffer)
            except OSError as error:
                self.into.problems[item.algorithm, item.key] = error.strerror or str(error)
            else:
                if not self.stopped:
                    self.into.memo.known.setdefault(item.algorithm, {})[item.key] = digest

    def _next(self, queues: tuple[deque[FileToHash], deque[FileToHash]]) -> FileToHash | None:
        while not self.stopped:
            for queue in queues:
                try:
                    return queue.popleft()
                except IndexError:
                    continue
            with self.news:
                if any(queues):
                    continue
                if self.closed:
                    return None
                self.news.wait()
        return None

    def _digest(self, item: FileToHash, buffer: memoryview) -> bytes:
        before = item.key
        for _ in range(_TRIES):
            digest, after = self._read(item, buffer)
            if not digest_memo.same_contents(after, item.key):
                raise OSError(errno.ESTALE, "it changed while it was read", item.path)
            if after == before:
                break
            # Somebody linked it again, as uv does for another venv: the inode's time moved, the contents' did not.
            before = after
        # Where it is linked each time it is read, as on a machine on which several venvs are built at once, only who
        # writes and sets the time back could have changed it. What is remembered has the first time: it counts no more.
        return binascii.b2a_base64(digest, newline=False).rstrip(b"=").translate(_URL_SAFE)

    def _read(self, item: FileToHash, buffer: memoryview) -> tuple[bytes, bytes]:
        """Return the digest of a file and its key afterwards: anything that happened in between shows in it."""
        descriptor = _open(item.path, self.into.roots)
        try:
            hasher = _hasher(item.algorithm).copy()
            left = item.size
            while left > 0 and not self.stopped:
                count = os.readv(descriptor, [buffer])
                if not count:
                    break
                hasher.update(buffer[:count])
                left -= count
                self.done += count
            status = os.fstat(descriptor)
        finally:
            os.close(descriptor)
        return hasher.digest(), key_of(status) if stat.S_ISREG(status.st_mode) else b""


@cache
def _lengths() -> dict[str, int]:
    """Return algorithm -> characters of its base64 digest without padding."""
    import hashlib  # noqa: PLC0415 - every check imports this module, few hash; it loads OpenSSL

    return {
        name: -(-hashlib.new(name, usedforsecurity=False).digest_size * 8 // 6)
        for name in sorted(hashlib.algorithms_guaranteed)
        if not name.startswith("shake_")
    }


@cache
def _hasher(algorithm: str) -> Any:
    import hashlib  # noqa: PLC0415 - as above

    # OpenSSL looks an algorithm up by name each time one is made; copying one that was made costs a tenth.
    return hashlib.new(algorithm, usedforsecurity=False)


def _open(path: str, roots: tuple[str, ...]) -> int:
    # Without O_NONBLOCK a FIFO put in the file's place would block for ever.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        return os.open(path, flags | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
    real = os.path.realpath(path)
    if not real.startswith(roots):
        raise OSError(errno.EXDEV, f"a link out of the environment, to {real}; not followed", path)
    return os.open(real, flags | os.O_NOFOLLOW)
