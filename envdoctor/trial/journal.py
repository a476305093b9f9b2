"""Every copy and its verdict, on disk before the next one is built: a bisection that was killed goes on there."""

import json
import os
from pathlib import Path
from typing import Any, Literal

from envdoctor.facts.owned import read_of
from envdoctor.facts.whole_file import appending
from envdoctor.model.codec import CodecError, decode, encode
from envdoctor.model.frozen import frozen
from envdoctor.standards.bounded_json import loads
from envdoctor.swap.durable import sync_folder
from envdoctor.swap.store import remove_tree
from envdoctor.trial.command import Criterion
from envdoctor.trial.delta import Outcome

Caches = Literal["warm", "cold", "bisect"]
"""What compile cache a copy begins with: the user's entries, none, or that is one of the changes."""
_MAXIMUM = 16 << 20
_NAME = "journal.jsonl"


@frozen
class Asked:
    """What a bisection was asked: enough to ask it again."""

    key: str
    """Digest of both ends, the command and what makes it bad: verdicts count for this alone."""
    good: str
    bad: str
    command: tuple[str, ...]
    criterion: Criterion
    caches: Caches
    offline: bool
    sources: bool
    changes: tuple[str, ...]
    """Keys of all changes."""
    started: str
    """UTC, ISO 8601."""
    folder: str = ""
    """In which it was asked: relative ends and the command's words start from it."""
    states: tuple[str, ...] = ()
    """Digests of what the good end and the bad one held; empty in journals of earlier versions."""
    version: str = ""
    """Of the envdoctor that began it: another one may digest differently."""


@frozen
class CopyVerdict:
    """What one copy was found to be."""

    changes: tuple[str, ...]
    """Keys of those made in it, sorted."""
    outcome: Outcome
    why: str
    seconds: float
    """To build it and judge it."""
    build_seconds: float
    ran: bool
    """False where files alone told that the command fails."""
    number: float | None = None


class TrialJournal:
    """The file of one bisection in a folder of ours."""

    def __init__(self, folder: Path) -> None:
        """Keep the place; nothing is read yet."""
        self.path = folder / _NAME
        self.asked: Asked | None = None
        self.verdicts: list[CopyVerdict] = []

    def read(self) -> bool:
        """Read what is there; tell whether there was a bisection. A line cut off by a kill is taken back."""
        try:
            lines = read_of(self.path, frozenset({os.getuid()}), _MAXIMUM).splitlines(keepends=True)
        except OSError:
            return False
        whole = 0
        for number, line in enumerate(lines):
            try:
                if not line.endswith(b"\n"):
                    break
                entry = loads(line)
                if number:
                    self.verdicts.append(decode(CopyVerdict, entry))
                else:
                    self.asked = decode(Asked, entry)
            except (ValueError, CodecError, RecursionError):
                break
            whole += len(line)
        if whole < sum(map(len, lines)):
            os.truncate(self.path, whole)
        return self.asked is not None

    def begin(self, asked: Asked) -> None:
        """Start over."""
        self.asked, self.verdicts = asked, []
        remove_tree(self.path)  # whatever is there
        self._append(encode(asked))

    def add(self, verdict: CopyVerdict) -> None:
        """Put a verdict on disk, durably."""
        self.verdicts.append(verdict)
        self._append(encode(verdict))

    def _append(self, entry: Any) -> None:
        with appending(self.path, 0o600) as file:  # it holds the command as it was typed
            file.write(json.dumps(entry).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        sync_folder(self.path.parent)
