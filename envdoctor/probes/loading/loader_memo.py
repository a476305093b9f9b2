"""Remembers what the model of the loader found in an environment, for as long as nothing that decided it changes.

A memo names every file and folder that was looked at with its device, inode, size and times; a folder's time tells of
files that came or went in it. One of them changed, or another question, and the memo counts for nothing.
"""

import json
import os
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

from envdoctor.facts.memo_file import read_own, settled, write_memo
from envdoctor.model.codec import CodecError, decode, encode
from envdoctor.model.frozen import frozen
from envdoctor.probes.venv.copy_place import Place

Section = TypeVar("Section")
Signature = list[int] | None
_MAXIMUM_MEMO = 16 * 1024 * 1024


@frozen
class LoaderMemo:
    """The memo of one environment for one question."""

    path: Path
    question: str
    """All that the answer depends on beside files."""
    cwd: str
    place: Place = Place()
    """Of a fresh copy: files in it are as its RECORDs say, which the question holds, and are not looked at."""

    def load(self, kind: type[Section]) -> Section | None:
        """Return what is remembered; None when nothing is, when it was for another state, or when it is damaged."""
        try:
            checksum, _, body = read_own(self.path, _MAXIMUM_MEMO).partition(b"\n")
            if checksum != b"%08x" % zlib.crc32(body):
                return None
            document = json.loads(self.place.here(body.decode()))
            if document["question"] != self.question or document["cwd"] not in ("", self.cwd):
                return None
            if any(self._signature(path) != signature for path, signature in document["seen"]):
                return None
            return decode(kind, document["found"])  # type: ignore[no-any-return]
        except (OSError, ValueError, TypeError, KeyError, RecursionError, CodecError):
            # Whatever is wrong with it, looking again gives the right answer and writes a new one.
            return None

    def save(self, found: object, paths: Iterable[str], started_ns: int, *, anywhere: bool) -> None:
        """Remember it, for every current folder if it holds anywhere; relative paths are then of the folder at hand.

        It is not when a file changed just before it was looked at, or when the cache cannot be written.
        Then the next run looks again: nothing is lost but its time.
        """
        seen = [(path, self._signature(path)) for path in sorted(paths) if not self.place.holds(path)]
        if not all(settled(changed, started_ns) for _, signature in seen if signature for changed in signature[3:]):
            return
        try:
            cwd = "" if anywhere else self.cwd
            document = {"question": self.question, "cwd": cwd, "seen": seen, "found": encode(found)}
            body = self.place.away(json.dumps(document)).encode()
            write_memo(self.path, b"%08x\n%b" % (zlib.crc32(body), body))
        except (OSError, UnicodeError):
            return

    def _signature(self, path: str) -> Signature:
        try:
            status = os.stat(os.path.join(self.cwd, path))  # noqa: PTH116, PTH118 - hundreds of string paths
        except (OSError, ValueError):
            return None
        return [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]
