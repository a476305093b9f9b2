"""Conversations of JSON lines, JSON, Parquet or Arrow files as tokens, kept in one Arrow file a source.

A row is a conversation (`trainer/data/conversation.py` says which shapes are read) or already tokens:
{"input_ids": [..], "loss_mask": [..]}. A row that cannot be used stops the run before it starts, naming the file and
the line; with `data.bad_rows = "skip"` it is left out and counted.
"""

import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainer.data.chat import Encoder
from trainer.data.conversation import SHAPE, conversation_of
from trainer.data.files import files_of, raw_rows, unreadable
from trainer.data.rows import Row, question
from trainer.errors import DataError
from trainer.writing import ROOM_TO_KEEP, kept_folder, one_at_a_time, say, whole, write_whole

_FORM = 2
"""Raised with every change of what is kept of a row."""
_BATCH = 512
"""Rows a record batch of the kept file."""
_EXAMPLES = 3
_QUIET_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRows:
    """Rows of some files, memory-mapped."""

    table: Any
    """A pyarrow table: input_ids, loss_mask, origin, turn, length, question, talk."""
    lengths: Sequence[int]
    files: tuple[int, ...]
    """Rows of each file: the numbers of its conversations begin at 0."""
    digest: str
    groups: tuple[int, ...]
    """Rows of each entry of data.path."""
    skipped: str
    """What was left out, in words, with examples; empty when nothing was."""

    @property
    def talks(self) -> Iterator[tuple[int, int]]:
        """Of each row what its conversation asks first, and the number of the conversation; nothing of it is kept."""
        row = start = 0
        for size in self.files:
            number = -1
            for batch in self.table.slice(row, size).select(["question", "talk"]).to_batches():
                for asks, number in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                    yield asks, start + number
            row, start = row + size, start + number + 1

    def counts(self, vocabulary: int, without: Sequence[int] = ()) -> Sequence[int]:
        """Return how often an assistant says each token below `vocabulary`, leaving out the rows of `without`."""
        import numpy as np  # noqa: PLC0415 - for a reduced vocabulary only

        found = np.zeros(vocabulary, dtype=np.int64)
        for batch in self.table.to_batches():
            ids, wanted = (batch.column(name).flatten().to_numpy() for name in ("input_ids", "loss_mask"))
            found += np.bincount(ids[wanted == 1], minlength=vocabulary)
        for number in without:
            row = self[number]
            found -= np.bincount(np.array(row.ids)[np.array(row.wanted) == 1], minlength=vocabulary)
        return [int(count) for count in found]

    def __getitem__(self, index: int) -> Row:
        """Return one row."""
        held = {name: self.table.column(name)[index].as_py() for name in ("input_ids", "loss_mask", "origin", "turn")}
        return Row(ids=held["input_ids"], wanted=held["loss_mask"], origin=held["origin"], turn=held["turn"])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """One file's rows on disk."""

    table: Any
    digest: str
    """Of the rows, not of how they came about: a run goes on over the same tokens."""
    skipped: int
    examples: tuple[str, ...]


def read_rows(paths: Sequence[Path], encoder: Encoder, vocabulary: int, *, skip: bool = False) -> FileRows:
    """Return the rows of files, or of all files in folders, as tokens below `vocabulary`.

    They are tokenised once and kept in the cache folder under a digest of the file and of the encoder.

    Raises DataError naming file and line for the first row that cannot be used; with `skip` those are left out, and
    only a source without any usable row is an error.
    """
    import pyarrow as pa  # noqa: PLC0415 - needed for files only, and slow to import

    made: list[_Made] = []
    groups: list[int] = []
    digests: list[str] = []
    for path in paths:
        before = len(made)
        for file in files_of(path):
            digest = _digest(file, encoder, vocabulary, skip=skip)
            with one_at_a_time(kept_folder("rows") / f"{digest}.lock", f"reading {file}"):
                made.append(_kept(file, digest, encoder, vocabulary, skip=skip))
            digests.append(f"{file.name} {made[-1].digest}")
        groups.append(sum(len(each.table) for each in made[before:]))
        if not groups[-1]:
            raise DataError(f"{path}: no usable row: {made[before].examples[0]}", "fix the rows, or remove the file")
    table = pa.concat_tables([each.table for each in made])
    digest = hashlib.sha256("\n".join(digests).encode()).hexdigest()[:16]
    return FileRows(
        table=table,
        lengths=table.column("length").to_pylist(),
        files=tuple(len(each.table) for each in made),
        digest=digest,
        groups=tuple(groups),
        skipped=_told(made),
    )


def _told(made: Sequence[_Made]) -> str:
    count = sum(each.skipped for each in made)
    if not count:
        return ""
    total = count + sum(len(each.table) for each in made)
    examples = [example for each in made for example in each.examples][:_EXAMPLES]
    return f"data.bad_rows: {count} of {total} rows cannot be used and are skipped, among them {'; '.join(examples)}"


def _digest(file: Path, encoder: Encoder, vocabulary: int, *, skip: bool) -> str:
    try:
        with file.open("rb") as opened:
            content = hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        raise unreadable(file, error) from error
    parts = f"{_FORM} {encoder.digest} {vocabulary} {skip} {file.name} {content}"
    return hashlib.sha256(parts.encode()).hexdigest()[:16]


def _kept(file: Path, digest: str, encoder: Encoder, vocabulary: int, *, skip: bool) -> _Made:
    place = kept_folder("rows") / f"{digest}.arrow"
    report = place.with_suffix(".json")
    if place.is_file() and report.is_file():
        try:
            return _read(place, report)
        except (OSError, ValueError, KeyError, TypeError) as error:
            told = str(error).partition("\n")[0]
            say(f"{place}: cannot be read ({told}); its rows are made again")
    _make(file, place, report, encoder, vocabulary, skip=skip)
    return _read(place, report)


def _read(place: Path, report: Path) -> _Made:
    """Return kept rows; raises an OSError, ValueError, KeyError or TypeError for files that were not written so."""
    import pyarrow as pa  # noqa: PLC0415 - as above

    counted = json.loads(report.read_text(encoding="utf-8"))
    table = pa.ipc.open_stream(pa.memory_map(str(place))).read_all()
    if len(table) != counted.get("rows", len(table)):
        raise ValueError(f"{len(table)} rows, {counted['rows']} were written")
    return _Made(table=table, digest=counted["digest"], skipped=counted["skipped"], examples=tuple(counted["examples"]))


def _make(file: Path, place: Path, report: Path, encoder: Encoder, vocabulary: int, *, skip: bool) -> None:
    """Write the rows beside their place and rename them: a killed run leaves no half of a file."""
    import pyarrow as pa  # noqa: PLC0415 - as above

    schema = pa.schema([
        ("input_ids", pa.list_(pa.int32())), ("loss_mask", pa.list_(pa.int8())),
        ("origin", pa.string()), ("turn", pa.int32()), ("length", pa.int32()),
        ("question", pa.int64()), ("talk", pa.int32()),
    ])  # fmt: skip
    bad: list[str] = []
    count = 0
    digest = hashlib.sha256()
    with whole(place, ROOM_TO_KEEP) as partial, partial.open("wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
        held: list[dict[str, Any]] = []
        before, talk, asks = "", -1, 0
        for row in _usable(file, encoder, vocabulary, bad, skip=skip):
            if (row.talk or row.origin) != before:
                before, talk, asks = row.talk or row.origin, talk + 1, question(row)
            held.append({
                "input_ids": row.ids, "loss_mask": row.wanted, "origin": row.origin, "turn": row.turn,
                "length": len(row.ids), "question": asks, "talk": talk,
            })  # fmt: skip
            count += 1
            digest.update(json.dumps([row.ids, row.wanted, row.origin, row.turn]).encode())
            if len(held) == _BATCH:
                writer.write_batch(pa.RecordBatch.from_pylist(held, schema=schema))
                held.clear()
        writer.write_batch(pa.RecordBatch.from_pylist(held, schema=schema))
    told = {"rows": count, "digest": digest.hexdigest(), "skipped": len(bad), "examples": bad[:_EXAMPLES]}
    write_whole(report, json.dumps(told), ROOM_TO_KEEP)


def _usable(file: Path, encoder: Encoder, vocabulary: int, bad: list[str], *, skip: bool) -> Iterator[Row]:
    """Yield the rows of a file; those that cannot be used are raised, or with `skip` added to `bad`."""
    spoke = time.monotonic()
    for number, (origin, raw) in enumerate(raw_rows(file), start=1):
        try:
            if isinstance(raw, DataError):
                raise raw
            yield from _rows(raw, encoder, vocabulary, origin)
        except DataError as error:
            if not skip:
                raise
            bad.append(error.message)
        if time.monotonic() - spoke > _QUIET_SECONDS:
            spoke = time.monotonic()
            say(f"tokenising {file}: {number:,} rows")  # a wait must not be silent


def _rows(raw: Mapping[str, Any], encoder: Encoder, vocabulary: int, origin: str) -> list[Row]:
    if raw.get("input_ids") is not None:
        return [_tokens(raw, vocabulary, origin)]
    rows = encoder.encode(conversation_of(raw, origin), origin)
    most = max((max(row.ids, default=0) for row in rows), default=0)
    if most >= vocabulary:
        raise DataError(
            f"{origin}: the tokenizer makes token {most}, and the target's tokens are 0 to {vocabulary - 1}",
            "give the target the tokenizer it was trained with",
        )
    return rows


def _tokens(raw: Mapping[str, Any], vocabulary: int, origin: str) -> Row:
    ids, wanted = raw["input_ids"], raw.get("loss_mask")
    if not isinstance(ids, list) or not isinstance(wanted, list) or len(wanted) != len(ids):
        sizes = [len(part) if isinstance(part, list) else "no list" for part in (ids, wanted)]
        raise DataError(f"{origin}: {sizes[0]} input_ids and {sizes[1]} loss_mask", SHAPE)
    for place, (token, flag) in enumerate(zip(ids, wanted, strict=True)):
        if type(token) is not int or not 0 <= token < vocabulary:
            raise DataError(
                f"{origin}: input_ids[{place}] is {token!r}, and the target's tokens are 0 to {vocabulary - 1}",
                "tokenise the row with the target's own tokenizer",
            )
        if flag not in (0, 1):
            raise DataError(f"{origin}: loss_mask[{place}] is {flag!r}", "use 1 for the assistant's tokens, else 0")
    # trainer.regenerate writes the turns of a conversation as rows, one after the other.
    talk = raw.get("origin")
    flags = [int(flag) for flag in wanted]
    return Row(ids=ids, wanted=flags, origin=origin, talk=talk if isinstance(talk, str) else "")
