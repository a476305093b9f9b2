"""Files of wheels that uv has just unpacked into its cache, hashed while it fetches the others.

uv moves an unpacked wheel into its cache in one step, and links the venv's files from there when it has all wheels. A
file of the venv is then known by its device, inode, size and time of last change of contents, as one is that an earlier
restore has read (`verified_contents`): what is changed, replaced or copied after it was read here is read at the end.
"""

import base64
import hashlib
import os
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event as Flag
from threading import get_native_id

from envdoctor.facts.folders import walk
from envdoctor.model.frozen import frozen
from envdoctor.probes.venv.digest_memo import key_of
from envdoctor.probes.venv.parsed_record import RecordsAhead
from envdoctor.probes.venv.verified_contents import Read, lasting

_SETTLED = 0.3
"""Seconds after which a wheel is read: its times can tell a later change by then."""
_NICE = 10
_CHUNK = 1 << 20


@frozen
class ReadWhileBuilt:
    """What was read while a venv was built."""

    records: RecordsAhead
    files: Sequence[Read] = ()
    """Of the wheels that came meanwhile."""


class HashedAhead:
    """What is read of wheels that come into uv's cache from now on."""

    def __init__(self, cache: Path, over: Flag) -> None:
        """Take uv's cache, and what says that the build has ended: nothing more is read then."""
        self._folder, self._over = cache / "archive-v0", over
        self._done = set(self._names())
        self._seen: dict[str, float] = {}
        self.read: list[Read] = []

    def look(self) -> None:
        """Read the wheels that have come and lie there for a moment. What cannot be read is read at the end."""
        now = time.monotonic()
        for name in self._names():
            if name not in self._done and now - self._seen.setdefault(name, now) >= _SETTLED:
                self._done.add(name)
                self._take(self._folder / name)

    def give_way(self) -> None:
        """Let uv have the processor first; for the thread that looks, which does nothing else from here on."""
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, get_native_id(), _NICE)

    def _names(self) -> list[str]:
        try:
            return os.listdir(self._folder)  # noqa: PTH208 - names only
        except OSError:
            return []  # an empty cache

    def _take(self, folder: Path) -> None:
        buffer = memoryview(bytearray(_CHUNK))
        for path in _files(folder):
            read_ns = time.time_ns()
            if self._over.is_set():
                return
            try:
                found = self._digest(path, buffer)
            except OSError:
                continue
            if found is not None and lasting(found, read_ns):
                self.read.append(found)

    def _digest(self, path: str, buffer: memoryview) -> Read | None:
        # Without O_NONBLOCK a FIFO would block for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            before = os.fstat(descriptor)
            if not stat.S_ISREG(before.st_mode):
                return None
            hasher = hashlib.sha256()
            while count := os.readv(descriptor, [buffer]):
                if self._over.is_set():
                    return None
                hasher.update(buffer[:count])
            after = os.fstat(descriptor)
        finally:
            os.close(descriptor)
        if key_of(before) != key_of(after):
            return None
        return Read(key=key_of(after), sha256=base64.urlsafe_b64encode(hasher.digest()).rstrip(b"="), path=path)


def _files(folder: Path) -> Iterator[str]:
    for above, _, names in walk(folder):
        yield from (f"{above}/{name}" for name in names)
