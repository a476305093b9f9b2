"""One wheel from an index or a folder into a wheelhouse: resumed, held to its hash, put into place in one step."""

import errno
import hashlib
import http.client
import os
import re
import ssl
import time
import urllib.error
from collections.abc import Callable
from email.message import Message
from pathlib import Path
from threading import Event as Flag
from typing import Any, BinaryIO

from envdoctor.model.frozen import mutable
from envdoctor.wheels.fetch import open_url
from envdoctor.wheels.index import File
from envdoctor.wheels.urls import Access, IndexUnreadableError, shown
from envdoctor.wheels.wheel_file import unsafe_entry

_PIECE = 1024 * 1024
_PAUSES = (0.0, 0.5, 2.0)
"""Seconds before each try."""
_PASSING = (408, 429, 500, 502, 503, 504)
"""What a server says when another try may help."""
_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+)")
_BROKEN_OFF = (http.client.HTTPException, ConnectionError, TimeoutError, ssl.SSLError, EOFError)
AGAIN = "run the same command again: it goes on where it stopped"


class DownloadError(Exception):
    """A wheel could not be had; what the wheelhouse held before is as it was."""

    def __init__(self, reason: str, hint: str = AGAIN) -> None:
        """Keep reason and next step apart."""
        super().__init__(reason)
        self.reason = reason
        self.hint = hint


@mutable
class Download:
    """One wheel on its way."""

    file: File
    hashes: tuple[str, ...]
    """Of the lock: sha256 in hex."""
    folder: Path
    access: Access
    tick: Callable[[int], None]
    """Is told how many bytes have come since it was last told; less than none when it had to be begun again."""
    stop: Flag
    _told: int = 0

    @property
    def made(self) -> Path:
        """Where the wheel will lie."""
        return self.folder / self.file.filename

    @property
    def part(self) -> Path:
        """Where it lies until it is complete and verified."""
        return self.folder / f".{self.file.filename}.part"

    def run(self) -> Path:
        """Fetch the wheel and return its path. Raises DownloadError; an incomplete part is kept, a wrong one is not."""
        if self.made.exists():
            raise DownloadError(
                f"{self.made} has sha256 {sha256(self.made)}, which the lock does not allow",
                "it may be another lock's wheel of the same name: use another wheelhouse, or move it away",
            )
        try:
            self._complete()
            self._refuse_unsafe()
            self.part.replace(self.made)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise DownloadError(
                    f"the disk that holds {self.folder} is full", f"free some space, then {AGAIN}"
                ) from error
            raise DownloadError(f"{error.filename or self.made}: {error.strerror or error}") from error
        return self.made

    def _complete(self) -> None:
        """Bring the part to its end and hold it to the hashes; what an earlier fetch left may turn out to be wrong."""
        left = self.part.exists()
        if left and sha256(self.part) in self.hashes:
            self._tell(self.part.stat().st_size)
            return
        self._fetch()
        digest = sha256(self.part)
        if digest in self.hashes:
            return
        self.part.unlink()
        if left:
            self._complete()
            return
        raise DownloadError(
            f"{shown(self.file.url)} is not the locked wheel: it hashes to {digest}, "
            f"the lock allows {', '.join(self.hashes)}",
            "do not install it; find out which source serves other bytes (a rebuilt wheel, a mirror, tampering)",
        )

    def _fetch(self) -> None:
        local = self.file.local
        if local is not None:
            with local.open("rb") as source, self.part.open("wb") as target:
                self._copy(source, target)
            return
        reason = ""
        for pause in _PAUSES:
            time.sleep(pause)
            try:
                self._ask()
            except FileNotFoundError:
                raise DownloadError(f"the index names {shown(self.file.url)}, but does not serve it (404)") from None
            except IndexUnreadableError as error:
                reason = str(error)
                code = error.__cause__.code if isinstance(error.__cause__, urllib.error.HTTPError) else 0
                if code == 416:
                    self.part.unlink(missing_ok=True)  # longer than the file: not a part of it
                elif code and code not in _PASSING:
                    break
            except _BROKEN_OFF as error:
                reason = f"{shown(self.file.url)}: the connection broke off ({str(error) or type(error).__name__})"
            else:
                return
        raise DownloadError(reason)

    def _ask(self) -> None:
        begun = self.part.stat().st_size if self.part.exists() else 0
        headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={begun}-"} if begun else {})}
        with open_url(self.file.url, self.access, more=headers) as answer:
            at, total = _extent(answer.status, answer.headers)
            if at not in (0, begun):
                raise EOFError("the server sent another range than it was asked for")
            with self.part.open("r+b" if at else "wb") as target:
                target.seek(at)
                self._copy(answer, target)
                if total is not None and target.tell() < total:
                    raise EOFError(f"{target.tell()} of {total} bytes came")

    def _copy(self, source: Any, target: BinaryIO) -> None:
        self._tell(target.tell())
        # What has come, not a full piece: a slow connection that is interrupted leaves it all.
        while piece := source.read1(_PIECE):
            if self.stop.is_set():
                raise DownloadError("it was interrupted")
            target.write(piece)
            self._tell(target.tell())
        target.flush()
        os.fsync(target.fileno())

    def _tell(self, reached: int) -> None:
        self.tick(reached - self._told)
        self._told = reached

    def _refuse_unsafe(self) -> None:
        if problem := unsafe_entry(self.part):
            self.part.unlink()
            raise DownloadError(
                f"{self.file.filename} must not be installed: {problem}",
                "never install it: find out where the wheel comes from, and lock another",
            )


def sha256(path: Path) -> str:
    """Return a file's digest in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _extent(status: int, headers: Message) -> tuple[int, int | None]:
    """Return where in the file the answer begins, and the file's size as far as it is told."""
    if status == 206 and (found := _RANGE.fullmatch(headers.get("Content-Range", ""))):
        return int(found[1]), int(found[2])
    length = headers.get("Content-Length", "")
    return 0, int(length) if length.isdecimal() else None
