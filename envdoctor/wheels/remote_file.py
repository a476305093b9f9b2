"""A file on an HTTP server, read in pieces: enough to see a wheel's table of contents without fetching the wheel."""

import io
from typing import BinaryIO, cast

from envdoctor.model.pattern import pattern
from envdoctor.wheels.http import WholeAnswer, ask
from envdoctor.wheels.urls import Access, IndexUnreadableError, shown

# A zip's table of contents is at its end; of most wheels all of it, and RECORD too, fits into this.
_TAIL = 64 * 1024
_PIECE = 64 * 1024
# A file that small is taken whole where the server knows no ranges.
_WHOLE = 64 * 1024
_TOTAL = pattern(r"bytes \d+-\d+/(\d+)")


class NoRangesError(Exception):
    """The server sends files only whole."""


def open_remote(url: str, access: Access) -> BinaryIO:
    """Open a remote file for reading and seeking.

    Raises NoRangesError, FileNotFoundError, or IndexUnreadableError when the server does not answer.
    """
    return cast("BinaryIO", io.BufferedReader(_RemoteFile(url, access), _PIECE))


class _RemoteFile(io.RawIOBase):
    """Keeps the end of the file; anything else is asked for when it is read."""

    def __init__(self, url: str, access: Access) -> None:
        super().__init__()
        self._url, self._access, self._at = url, access, 0
        self._tail, self._size = self._fetch_tail()

    def _fetch_tail(self) -> tuple[bytes, int]:
        # One byte more than is kept tells a file that is too large to be taken whole.
        answer = self._ask(f"bytes=-{_TAIL}", _WHOLE + 1)
        if answer.status == 206 and (total := _TOTAL.fullmatch(answer.headers.get("Content-Range", ""))):
            return answer.body, int(total[1])
        if len(answer.body) > _WHOLE:
            raise NoRangesError(f"{shown(self._url)}: the server sends it only whole")
        return answer.body, len(answer.body)

    def _ask(self, wanted: str, limit: int) -> WholeAnswer:
        return ask(self._url, self._access, headers={"Range": wanted, "Accept-Encoding": "identity"}, limit=limit)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(base + offset, 0)
        return self._at

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        wanted = min(len(buffer), self._size - self._at)
        if wanted <= 0:
            return 0
        kept_from = self._size - len(self._tail)
        if self._at >= kept_from:
            data = self._tail[self._at - kept_from : self._at - kept_from + wanted]
        else:
            data = self._piece(self._at, wanted)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    def _piece(self, at: int, wanted: int) -> bytes:
        answer = self._ask(f"bytes={at}-{at + wanted - 1}", wanted)
        if answer.status != 206:
            raise IndexUnreadableError(f"{shown(self._url)}: the server does not send the range it was asked for")
        if len(answer.body) != wanted:
            raise IndexUnreadableError(f"{shown(self._url)}: the server sent less than the range it was asked for")
        return answer.body
