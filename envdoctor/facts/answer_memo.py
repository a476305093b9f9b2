"""Answers of other programs, remembered under a text that holds all that decides them."""

import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any

from envdoctor.facts.host import Host
from envdoctor.facts.memo_file import memo_path, read_own, settled, write_memo

_MAXIMUM = 1024 * 1024
_MAXIMUM_ENTRIES = 200


class AnswerMemo:
    """What is known of one kind, and what is learned now. Answers are JSON values."""

    def __init__(self, path: Path | None = None) -> None:
        """Read what is known; a memo that is damaged, or that another user wrote, says nothing."""
        self._path = path
        try:
            self._known = dict(json.loads(read_own(path, _MAXIMUM))) if path else {}
        except (OSError, ValueError, TypeError, RecursionError):
            self._known = {}

    @classmethod
    def of(cls, kind: str, host: Host) -> "AnswerMemo":
        """Return what this user's earlier commands were told."""
        return cls(memo_path(kind, Path("/"), host))

    def get(self, question: object) -> Any:
        """Return the answer to a question; None when it is not known."""
        return self._known.get(_key(question))

    def put(self, question: object, answer: Any) -> None:
        """Remember an answer; the longest known give way. A full disk is no matter."""
        self._known[_key(question)] = answer
        if self._path is not None:
            try:
                write_memo(self._path, json.dumps(dict(list(self._known.items())[-_MAXIMUM_ENTRIES:])).encode())
            except OSError:
                return  # the next command asks again


def state_of(path: str | Path) -> tuple[int, ...] | None:
    """Return what changes with a file: device, inode, size, times of contents and of inode; None when it is not there.

    It also changes with each look at a file that was changed a moment ago, or in the future: a later change within one
    step of that clock would leave no trace.
    """
    try:
        status = os.stat(path)  # noqa: PTH116 - paths of either kind
    except OSError:
        return None
    now = time.time_ns()
    if not (settled(status.st_mtime_ns, now) and settled(status.st_ctime_ns, now)):
        return status.st_dev, status.st_ino, now
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _key(question: object) -> str:
    # A digest: a question may hold a password, and a memo is no place for one.
    return hashlib.sha256(repr(question).encode("utf-8", "surrogateescape")).hexdigest()
