"""One wheel from an index or a folder into a wheelhouse: resumed, held to its hash, put into place in one step."""

import errno
import hashlib
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Event as Flag
from typing import BinaryIO, Protocol

from envdoctor.facts.regular_file import open_regular
from envdoctor.facts.whole_file import open_alone
from envdoctor.model.frozen import mutable
from envdoctor.model.wording import counted
from envdoctor.wheels.http import PATIENCE, PAUSES, opened
from envdoctor.wheels.http_errors import TransientError
from envdoctor.wheels.index import File
from envdoctor.wheels.urls import Access, IndexUnreadableError, shown
from envdoctor.wheels.wheel_file import unsafe_entry

_PIECE = 1024 * 1024
_LARGEST = 16 << 30
"""Bytes of a wheel: the largest published ones have 3 GB."""
_LEFT_FREE = 256 << 20
"""Bytes of the disk that a file of unknown size leaves free."""
_END_OF_ZIP, _TRAILER = b"PK\5\6", 22 + 65_535
"""What ends a zip archive, and how much of its end that may be (APPNOTE 4.3.16)."""
_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+)")
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
    _validator: str = ""
    """The ETag of the first answer: a resumed download must be of the same file (RFC 9110, 13.1.5)."""

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
            if (digest := wheel_sha256(self.made)) == "none":
                raise DownloadError(
                    f"{self.made} {hash_told(digest)}", f"it may be cut off: move it away, then {AGAIN}"
                )
            raise DownloadError(
                f"{self.made} {hash_told(digest)}, which the lock does not allow",
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
        if self.part.is_symlink() or (self.part.exists() and not self.part.is_file()):
            self.part.unlink()  # not what an earlier fetch left
        left = self.part.exists()
        if left and wheel_sha256(self.part) in self.hashes:
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
            with local.open("rb") as source, self._writing(at=0) as target:
                self._copy(source, target, self.file.size)
            return
        furthest, failures = 0, 0
        while True:
            try:
                self._ask()
            except FileNotFoundError:
                raise DownloadError(f"the index names {shown(self.file.url)}, but does not serve it (404)") from None
            except TransientError as error:
                # A try that came further than those before it does not count: a long download may break off often.
                reached = self.part.stat().st_size if self.part.exists() else 0
                failures = 0 if reached > furthest else failures + 1
                furthest = max(furthest, reached)
                if failures >= len(PAUSES) or error.wait > PATIENCE:
                    raise DownloadError(str(error)) from error
                self._pause(max(error.wait, PAUSES[failures]))
            except IndexUnreadableError as error:
                if error.status == 416 and self.part.exists():
                    self.part.unlink()  # longer than the file: not a part of it
                    continue
                raise DownloadError(str(error)) from error
            else:
                return

    def _pause(self, seconds: float) -> None:
        if self.stop.wait(seconds):
            raise DownloadError("it was interrupted")

    def _ask(self) -> None:
        begun = self.part.stat().st_size if self.part.exists() else 0
        headers = {"Accept-Encoding": "identity"}
        if begun:
            headers |= {"Range": f"bytes={begun}-", **({"If-Range": self._validator} if self._validator else {})}
        with opened(self.file.url, self.access, headers) as answer:
            at, total = _extent(answer.status, answer.headers)
            if at not in (0, begun):
                raise TransientError(f"{shown(self.file.url)}: the server sent another range than it was asked for")
            self._validator = _strong(answer.headers.get("ETag", ""))
            with self._writing(at) as target:
                self._copy(answer, target, self._size(answer.headers, total))
                if total is not None and target.tell() < total:
                    raise TransientError(
                        f"{shown(self.file.url)}: the connection broke off ({target.tell()} of {total} bytes came)"
                    )

    def _size(self, headers: Mapping[str, str], total: int | None) -> int | None:
        """Return the size of the file that the index or the server says, the smaller one; None where none does."""
        encoded = headers.get("Content-Encoding", "identity") != "identity"
        told = (self.file.size, None if encoded else total)
        return min((size for size in told if size is not None), default=None)

    def _writing(self, at: int) -> BinaryIO:
        target = os.fdopen(open_alone(self.part, os.O_RDWR), "r+b")
        target.truncate(at)
        target.seek(at)
        return target

    def _copy(self, source: "_Source", target: BinaryIO, size: int | None) -> None:
        """Copy what is left; size: of the whole file, None where nobody says it."""
        self._tell(target.tell())
        most = _LARGEST if size is None else size
        if size is None:
            disk = os.fstatvfs(target.fileno())
            most = min(most, target.tell() + max(0, disk.f_bavail * disk.f_frsize - _LEFT_FREE))
        # What has come, not a full piece: a slow connection that is interrupted leaves it all.
        while piece := source.read1(_PIECE):
            if self.stop.is_set():
                raise DownloadError("it was interrupted")
            if target.tell() + len(piece) > most:
                target.close()
                self.part.unlink()
                raise DownloadError(
                    f"{shown(self.file.url)} does not end: more than {counted(most, 'byte')} came, "
                    f"{'which is its size' if size is not None else 'and nobody says its size'}",
                    "look at what that server serves, or take the wheel from another source",
                )
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


def wheel_sha256(path: Path) -> str:
    """Return the digest of a wheel on this machine; "none" too, unread, of what is over 16 GiB or no zip archive."""
    try:
        with open_regular(path) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(-min(size, _TRAILER), os.SEEK_END)
            if size > _LARGEST or _END_OF_ZIP not in file.read(_TRAILER):
                return "none"
    except OSError:
        return "none"
    return sha256(path)


def hash_told(digest: str) -> str:
    """Return what a message says of a file with that digest of `wheel_sha256`."""
    return "is not a readable zip archive of up to 16 GiB" if digest == "none" else f"has sha256 {digest}"


def sha256(path: Path) -> str:
    """Return a file's digest in hex; of what is not a file, or cannot be read, "none"."""
    try:
        with open_regular(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return "none"


def _extent(status: int, headers: Mapping[str, str]) -> tuple[int, int | None]:
    """Return where in the file the answer begins, and the file's size as far as it is told."""
    if status == 206 and (found := _RANGE.fullmatch(headers.get("Content-Range", ""))):
        return int(found[1]), int(found[2])
    length = headers.get("Content-Length", "")
    return 0, int(length) if length.isdecimal() else None


def _strong(etag: str) -> str:
    """Return an ETag that can hold a range to its file; empty for a weak one, which can not."""
    return "" if etag.startswith("W/") else etag


class _Source(Protocol):
    """An answer, or a file on this machine."""

    def read1(self, amt: int, /) -> bytes: ...
