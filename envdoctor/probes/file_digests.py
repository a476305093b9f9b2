"""Hashing the files of an environment: in parallel, what is not remembered, and nothing that a link leads out to."""

import base64
import errno
import hashlib
import os
import stat
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from envdoctor.probes import digest_memo
from envdoctor.probes.digest_memo import DigestMemo, key_of

Progress = Callable[[int, int], None]
"""Called with (bytes done, bytes in all)."""

_CHUNK = 256 * 1024
_TICK_SECONDS = 0.1
_MAXIMUM_THREADS = 32
# The lengths of their base64 text, unpadded, as RECORD writes it.
_LENGTHS = {
    name: -(-hashlib.new(name, usedforsecurity=False).digest_size * 8 // 6)
    for name in sorted(hashlib.algorithms_guaranteed)
    if not name.startswith("shake_")
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One file to hash."""

    algorithm: str
    key: bytes
    path: str
    size: int


@dataclass(slots=True, kw_only=True)
class FileDigests:
    """Digests of the environment's files, those of earlier runs included."""

    memo: DigestMemo
    roots: tuple[str, ...]
    """Real folders, with a final slash, into which a file that is a symlink may lead."""
    problems: dict[tuple[str, bytes], str] = field(default_factory=dict)
    """(algorithm, key) -> why the file could not be hashed."""
    started_ns: int = field(default_factory=time.time_ns)

    def get(self, algorithm: str, key: bytes) -> bytes | None:
        """Return the base64 digest of the file with that key; None when it is not known (yet)."""
        return self.memo.known.get(algorithm, {}).get(key)

    def hash(self, files: Iterable[Wanted], progress: Progress | None = None) -> int:
        """Hash files, each key once; return the bytes read. Afterwards `get` or `problems` knows each of them."""
        asked = {(item.algorithm, item.key): item for item in files}
        queue = deque(sorted(asked.values(), key=lambda item: item.size))
        threads = min(len(os.sched_getaffinity(0)), _MAXIMUM_THREADS, len(queue))
        total = sum(item.size for item in queue)
        work = _Work(queue=queue, into=self)
        with ThreadPoolExecutor(max(threads, 1)) as pool:
            # Small files hold the interpreter's lock most of the time: two threads on them would wait for each other.
            # So one thread works up from the smallest, the others down from the largest.
            futures = [pool.submit(work.run, queue.pop if number else queue.popleft) for number in range(threads)]
            try:
                _wait(futures, work, total, progress)
            finally:
                work.stopped = True
        for future in futures:
            future.result()
        return work.done

    def remember(self, keys: Iterable[tuple[str, bytes]]) -> None:
        """Write down what is known of these (algorithm, key) and nothing else."""
        kept: dict[str, dict[bytes, bytes]] = {}
        for algorithm, key in keys:
            digest = self.get(algorithm, key)
            if digest is not None and digest_memo.settled(key, self.started_ns):
                kept.setdefault(algorithm, {})[key] = digest
        digest_memo.save(self.memo, kept)


def usable(field_: str) -> str:
    """Return the algorithm of RECORD's hash field; empty when the field is none that a file can be compared with."""
    algorithm, _, text = field_.partition("=")
    return algorithm if _LENGTHS.get(algorithm) == len(text.rstrip("=")) else ""


def _wait(futures: list[Future[None]], work: "_Work", total: int, progress: Progress | None) -> None:
    pending = set(futures)
    while pending:
        _, pending = wait(pending, timeout=_TICK_SECONDS)
        if progress is not None:
            progress(min(work.done, total), total)


@dataclass(slots=True, kw_only=True)
class _Work:
    """A queue that several threads empty from both ends."""

    queue: deque[Wanted]
    into: FileDigests
    done: int = 0
    """Bytes; an addition lost between two threads only blurs the progress."""
    stopped: bool = False

    def run(self, take: Callable[[], Wanted]) -> None:
        buffer = memoryview(bytearray(_CHUNK))
        while not self.stopped:
            try:
                item = take()
            except IndexError:
                return
            try:
                digest = self._digest(item, buffer)
            except OSError as error:
                self.into.problems[item.algorithm, item.key] = error.strerror or str(error)
            else:
                if not self.stopped:
                    self.into.memo.known.setdefault(item.algorithm, {})[item.key] = digest

    def _digest(self, item: Wanted, buffer: memoryview) -> bytes:
        descriptor = _open(item.path, self.into.roots)
        try:
            self._same(item, descriptor)
            hasher = hashlib.new(item.algorithm, usedforsecurity=False)
            left = item.size
            while left > 0 and not self.stopped:
                count = os.readv(descriptor, [buffer])
                if not count:
                    break
                hasher.update(buffer[:count])
                left -= count
                self.done += count
            self._same(item, descriptor)
        finally:
            os.close(descriptor)
        return base64.urlsafe_b64encode(hasher.digest()).rstrip(b"=")

    @staticmethod
    def _same(item: Wanted, descriptor: int) -> None:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", item.path)
        if key_of(status) != item.key:
            raise OSError(errno.ESTALE, "it changed while it was read", item.path)


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
