"""Unpacking in a second thread while the first one hashes and writes: each of them leaves the interpreter's lock."""

import queue
import threading
from typing import BinaryIO

import zstandard

_CHUNK = 1 << 20
_CHUNKS_AHEAD = 8
# A frame may ask its reader for any window; 128 MiB is what `zstd -dc` allows without --memory.
_MAXIMUM_WINDOW = 1 << 27


class ReadAhead:
    """The unpacked content of a zstd file, read a few chunks ahead."""

    def __init__(self, raw: BinaryIO) -> None:
        """Start unpacking an open file."""
        self._stream = zstandard.ZstdDecompressor(max_window_size=_MAXIMUM_WINDOW).stream_reader(raw)
        self._chunks: queue.Queue[bytes | zstandard.ZstdError] = queue.Queue(_CHUNKS_AHEAD)
        self._stopped = threading.Event()
        self._rest = memoryview(b"")
        self._ended = False
        self._thread = threading.Thread(target=self._unpack, name="unpack", daemon=True)
        self._thread.start()

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes, nothing at the end. Raises ZstdError for what is no zstd."""
        if not self._rest and not self._ended:
            chunk = self._chunks.get()
            if isinstance(chunk, Exception):
                self._ended = True
                raise chunk
            self._ended = not chunk
            self._rest = memoryview(chunk)
        taken, self._rest = self._rest[:size], self._rest[size:]
        return bytes(taken)

    def close(self) -> None:
        """Stop, however much is left."""
        self._stopped.set()
        while self._thread.is_alive():
            # The thread may stand before a full queue: make room until it sees that it is over.
            try:
                self._chunks.get(timeout=0.01)
            except queue.Empty:
                continue
        self._thread.join()

    def _unpack(self) -> None:
        try:
            while not self._stopped.is_set():
                chunk = self._stream.read(_CHUNK)
                self._chunks.put(chunk)
                if not chunk:
                    return
        except (zstandard.ZstdError, OSError, MemoryError) as error:
            self._chunks.put(error if isinstance(error, zstandard.ZstdError) else zstandard.ZstdError(str(error)))
