"""What the loader needs of a data set, wherever its rows come from."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One conversation as tokens."""

    ids: Sequence[int]
    wanted: Sequence[int]
    """1 where the assistant speaks, as long as `ids`."""
    origin: str
    """Where it came from: "chats.jsonl:12"."""
    turn: int = 0
    """The turn that is learnt from, counted from 1; 0 where all turns of the assistant are."""
    talk: str = ""
    """The conversation that it is a turn of, where its origin alone does not say that."""


def question(row: Row) -> int:
    """Return a number for what a conversation asks first: the tokens before the assistant speaks, or all without such.

    Of several rows of a conversation it is the first one's.
    """
    start = next((place for place, flag in enumerate(row.wanted) if flag), 0)
    told = ",".join(map(str, row.ids[:start] or row.ids))
    return int.from_bytes(hashlib.sha256(told.encode()).digest()[:8], "little", signed=True)


class Rows(Protocol):
    """A data set that can be read in any order."""

    @property
    def lengths(self) -> Sequence[int]:
        """Tokens of each row."""

    @property
    def digest(self) -> str:
        """Identity of the rows and of how they were tokenised."""

    @property
    def groups(self) -> tuple[int, ...]:
        """Rows of each source, in order: what data.weights weighs."""

    @property
    def talks(self) -> Iterable[tuple[int, int]]:
        """Of each row what its conversation asks first (see `question`), and the number of the conversation."""

    @property
    def skipped(self) -> str:
        """What was left out, in words; empty when nothing was."""

    def counts(self, vocabulary: int, without: Sequence[int] = ()) -> Sequence[int]:
        """Return how often an assistant says each token below `vocabulary`, leaving out the rows of `without`."""

    def __getitem__(self, index: int) -> Row:
        """Return one row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowList:
    """Rows held in memory."""

    rows: tuple[Row, ...]
    digest: str
    skipped: str = ""

    @property
    def lengths(self) -> Sequence[int]:
        """Tokens of each row."""
        return [len(row.ids) for row in self.rows]

    @property
    def groups(self) -> tuple[int, ...]:
        """One source."""
        return (len(self.rows),)

    @property
    def talks(self) -> Sequence[tuple[int, int]]:
        """Each row is a conversation."""
        return [(question(row), number) for number, row in enumerate(self.rows)]

    def counts(self, vocabulary: int, without: Sequence[int] = ()) -> Sequence[int]:
        """Return how often an assistant says each token below `vocabulary`, leaving out the rows of `without`."""
        spared = set(without)
        rows = [row for number, row in enumerate(self.rows) if number not in spared]
        found = Counter(token for row in rows for token, wanted in zip(row.ids, row.wanted, strict=True) if wanted)
        return [found[token] for token in range(vocabulary)]

    def __getitem__(self, index: int) -> Row:
        """Return one row."""
        return self.rows[index]
