"""The parsed rows of each RECORD remembered between runs: a stack of 90 distributions has 26,000 rows.

A RECORD is known by its path and by its device, inode, size, and times of last change of contents and of inode, taken
from the file opened for reading. Only rows that need no judgement are remembered (no quotation mark, not malformed);
whether a row leads out of the environment is looked up on disk in every run. The memo is text in columns: nothing in it
can be more than a list of strings.
"""

import json
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

from envdoctor.facts.context import Reading
from envdoctor.facts.memo_file import memo_path, read_own, settled, write_memo
from envdoctor.model.frozen import field, mutable
from envdoctor.probes.venv.rows import Fields, Rows, Span, columns_of, join, split

_MAGIC = b"envdoctor records 4\n"
"""Raised whenever a field or what it means changes: what was remembered before then counts for nothing."""
_MAXIMUM = 256 * 1024 * 1024
_FIELDS, _COLUMNS = 3, 4
"""What a row has, and what is kept of all rows: binaries are a column of their own."""

Key = list[int]
Order = list[tuple[int, str]]
"""(index of the distribution, path) of each RECORD."""
Contested = Mapping[str, Sequence[tuple[int, tuple[str, str, int]]]]
"""Absolute path -> (index of an owner, its row), where several list it."""
Compared = tuple[Order, Contested]


@mutable
class Parsed:
    """One RECORD in memory."""

    rows: Sequence[Fields]
    lines: int
    """Line ends in the file."""
    digest: str
    """sha256 of the rows that the wheel brought, in hex."""
    odd: list[str]
    """Paths of rows whose path is not the plain text of a path below the site folder, as `../../../bin/x`."""
    folders: list[str]
    """Distinct folders of the other rows, relative to the site folder; "" for itself."""
    plain: bool = True
    """Read without a judgement; others are not remembered."""


@mutable
class RecordMemo:
    """What is known of the RECORDs of one environment, and what is found out now."""

    path: Path | None
    """None where nothing is written."""
    known: dict[str, tuple[Key, Parsed]] = field(default_factory=dict)
    """Path of a RECORD -> its key and rows."""
    seen: dict[str, tuple[Key, Parsed]] = field(default_factory=dict)
    """The same, of this run."""
    compared: Compared | None = None
    """What comparing all of them found, when it was last done."""
    learned: bool = False
    """Whether that was in this run."""

    def knows(self, path: str, status: os.stat_result) -> bool:
        """Tell whether the RECORD with that status is known as it is now."""
        return path in self.known and self.known[path][0] == _key(status)

    def recall(self, path: str) -> Parsed:
        """Return a RECORD that is known."""
        self.seen[path] = self.known[path]
        return self.known[path][1]

    def learn(self, path: str, status: os.stat_result, read_ns: int, parsed: Parsed) -> None:
        """Take a RECORD, which was read at that time, into what is written; not one that has just been changed."""
        if parsed.plain and all(settled(changed, read_ns) for changed in (status.st_mtime_ns, status.st_ctime_ns)):
            self.seen[path] = (_key(status), parsed)

    def contested(self, order: Order) -> Contested | None:
        """Return what comparing these RECORDs found, in this order; None where one of them is not as it was then."""
        if self.compared is None or self.compared[0] != order:
            return None
        unchanged = all(path in self.known and self.seen.get(path) is self.known[path] for _, path in order)
        return self.compared[1] if unchanged else None

    def learn_contested(self, order: Order, contested: Contested) -> None:
        """Take what was found into what is written, where all of these RECORDs are."""
        if all(path in self.seen for _, path in order):
            self.compared, self.learned = (order, contested), True

    def save(self) -> None:
        """Write the memo where anything is new or gone. A memo that cannot be written costs the next run its time."""
        same = self.seen.keys() == self.known.keys() and all(one is self.known[path] for path, one in self.seen.items())
        if self.path is None or (same and not self.learned):
            return
        try:
            write_memo(self.path, _written(self.seen, self.compared if self.learned else None))
        except (OSError, UnicodeError):
            return


def load(reading: Reading) -> RecordMemo:
    """Read the memo of the target; one that is damaged, foreign or of another version counts as empty.

    A copy that is about to be renamed has none: its paths are never seen again. The gate writes nothing.
    """
    if reading.target.final is not None:
        return RecordMemo(path=None)
    path = memo_path("records", reading.target.prefix, reading.host)
    memo = RecordMemo(path=None if reading.options.only_remembered else path)
    try:
        memo.compared, known = _parse(read_own(path, _MAXIMUM))
        memo.known = dict(known)
    except (OSError, ValueError, TypeError, KeyError, IndexError, RecursionError):
        memo.known, memo.compared = {}, None
    return memo


def _key(status: os.stat_result) -> Key:
    return [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def _written(known: Mapping[str, tuple[Key, Parsed]], compared: Compared | None) -> bytes:
    entries, columns = [], []
    for path, (key, one) in known.items():
        own = [*columns_of(one.rows), join(one.folders)]
        columns += own
        entries.append([path, key, one.lines, one.digest, one.odd, len(one.rows), len(one.folders), [*map(len, own)]])
    body = b"\n".join([json.dumps([entries, compared]).encode(), *columns])
    return _MAGIC + b"%08x" % zlib.crc32(body) + body


def _parse(data: bytes) -> tuple[Compared | None, Iterator[tuple[str, tuple[Key, Parsed]]]]:
    """Return what comparing found, and path -> (key, RECORD); raise what a wrong shape raises, for what is no memo."""
    start = len(_MAGIC) + 8
    if not data.startswith(_MAGIC) or data[len(_MAGIC) : start] != b"%08x" % zlib.crc32(memoryview(data)[start:]):
        raise ValueError("not a memo of this version, or damaged")
    at = data.index(b"\n", start)
    entries, compared = json.loads(data[start:at])
    if compared is not None:
        order, contested = compared
        compared = [(owner, path) for owner, path in order], _claims(contested, {owner for owner, _ in order})
    return compared, _records(data, at, entries)


def _claims(contested: Mapping[str, Sequence[Any]], known: AbstractSet[int]) -> Contested:
    found = {
        path: [(owner, (claim, digest, size)) for owner, (claim, digest, size) in claims]
        for path, claims in contested.items()
    }
    if not all(owner in known for claims in found.values() for owner, _ in claims):
        raise ValueError("a claim of no RECORD")
    return found


def _records(data: bytes, at: int, entries: Sequence[Any]) -> Iterator[tuple[str, tuple[Key, Parsed]]]:
    for path, key, lines, digest, odd, rows, folders, lengths in entries:
        spans: list[Span] = []
        for length in lengths:
            spans.append((at + 1, at + 1 + length))
            at += 1 + length
        *of_rows, (begin, end) = spans
        # Rows are made when somebody asks for them; here only their number is compared.
        lines_in = {data.count(b"\n", *span) for span in of_rows[:_FIELDS]}
        if len(of_rows) != _COLUMNS or lines_in != {max(rows - 1, 0)} or not all(isinstance(path, str) for path in odd):
            raise ValueError("a column or a row that is not there")
        above = split(data[begin:end])[:folders]
        yield (
            path,
            (key, Parsed(rows=Rows(rows, data, of_rows), lines=lines, digest=digest, odd=odd, folders=above)),
        )
    if at != len(data):
        raise ValueError("its lengths do not fit")
