"""A file on an HTTP server, read in pieces: enough to see a wheel's table of contents without fetching the wheel."""

import http.client
import io
import re
from collections.abc import Mapping
from typing import BinaryIO, cast

from envdoctor.wheels.fetch import open_url
from envdoctor.wheels.urls import Access, IndexUnreadableError, shown

# A zip's table of contents is at its end; of most wheels all of it, and RECORD too, fits into this.
_TAIL = 64 * 1024
_PIECE = 64 * 1024
# A file that small is taken whole where the server knows no ranges.
_WHOLE = 64 * 1024
_TOTAL = re.compile(r"bytes \d+-\d+/(\d+)")


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
        with self._ask(f"bytes=-{_TAIL}") as answer:
            if answer.status == 206 and (total := _TOTAL.fullmatch(answer.headers.get("Content-Range", ""))):
                return self._read(answer, -1), int(total[1])
            length = answer.headers.get("Content-Length", "")
            if not length.isdecimal() or int(length) > _WHOLE:
                raise NoRangesError(f"{shown(self._url)}: the server sends it only whole")
            data = self._read(answer, int(length))
            return data, len(data)

    def _ask(self, wanted: str) -> "_Answer":
        headers = {"Range": wanted, "Accept-Encoding": "identity"}
        return cast("_Answer", open_url(self._url, self._access, more=headers))

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
        with self._ask(f"bytes={at}-{at + wanted - 1}") as answer:
            if answer.status != 206:
                raise IndexUnreadableError(f"{shown(self._url)}: the server does not send the range it was asked for")
            return self._read(answer, wanted)

    def _read(self, answer: "_Answer", wanted: int) -> bytes:
        try:
            # Only a read to the end tells one that came too early.
            data = answer.read() if wanted < 0 else answer.read(wanted)
        except (http.client.HTTPException, OSError) as error:
            raise IndexUnreadableError(f"{shown(self._url)}: the connection broke off ({error})") from error
        if len(data) != wanted >= 0:
            raise IndexUnreadableError(f"{shown(self._url)}: the connection broke off")
        return data


class _Answer(io.BufferedIOBase):
    """What urllib gives back, as far as it is used here."""

    status: int
    headers: Mapping[str, str]
