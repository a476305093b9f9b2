"""Conversations from JSONL or parquet files, by way of the `datasets` library and its cache.

A row is either {"conversations": [{"role": .., "content": ..}, ..]} ("messages" is read as well), or already tokens:
{"input_ids": [..], "loss_mask": [..]}. Anything else stops the run before it starts, naming the file and the line.
"""

import fcntl
import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainer.data.chat import Message, encode, encoding_digest
from trainer.data.rows import Row
from trainer.errors import DataError, not_utf8

ROLES = frozenset({"system", "user", "assistant", "tool"})
_SUFFIXES = {".jsonl": "json", ".json": "json", ".parquet": "parquet"}
_SHAPE = 'a row is {"conversations": [{"role": "user", "content": ".."}, ..]} or {"input_ids": [..], "loss_mask": [..]}'


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRows:
    """Rows of some files, tokenised and memory-mapped by `datasets`."""

    table: Any
    lengths: Sequence[int]
    digest: str

    def __getitem__(self, index: int) -> Row:
        """Return one row."""
        held = self.table[index]
        return Row(ids=held["input_ids"], wanted=held["loss_mask"], origin=held["origin"])


def read_rows(path: Path, tokenizer: Any, vocabulary: int) -> FileRows:
    """Return the rows of a file or of all files in a folder, as tokens below `vocabulary`.

    They are tokenised once and cached under a digest of the files and of the tokenizer with its template.

    Raises DataError naming file and line for the first row that cannot be used.
    """
    import datasets  # noqa: PLC0415 - needed for files only, and slow to import

    files = _files(path)
    told = [
        encoding_digest(tokenizer),
        str(vocabulary),
        *(f"{file.name} {file.stat().st_size} {_hash(file)}" for file in files),
    ]
    digest = hashlib.sha256("\n".join(told).encode()).hexdigest()[:16]
    datasets.disable_progress_bars()
    # The reader logs what it then raises; the error that names the line is ours.
    datasets.utils.logging.set_verbosity(logging.CRITICAL)
    with _one_at_a_time(digest):
        tables = [_tokenised(datasets, file, tokenizer, vocabulary, digest) for file in files]
    table = datasets.concatenate_datasets(tables)
    if not len(table):
        raise DataError(f"{path}: no row in {len(files)} files", "give files with conversations")
    return FileRows(table=table, lengths=list(table["length"]), digest=digest)


def _files(path: Path) -> list[Path]:
    if path.is_file():
        found = [path]
    elif path.is_dir():
        found = sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES)
    else:
        raise DataError(
            f"data.path {path}: no such file or folder", "give a .jsonl or .parquet file, or a folder of them"
        )
    if not found or any(file.suffix not in _SUFFIXES for file in found):
        raise DataError(
            f"data.path {path}: no .jsonl or .parquet file", "give a .jsonl or .parquet file, or a folder of them"
        )
    return found


def _tokenised(datasets: Any, file: Path, tokenizer: Any, vocabulary: int, digest: str) -> Any:
    lines = None if file.suffix == ".parquet" else _line_numbers(file)
    if lines == []:
        raise DataError(f"{file}: holds no row", "give a file with conversations, or remove this one")

    def made(row: Mapping[str, Any], index: int) -> Row:
        line = lines[index] if lines is not None and index < len(lines) else index + 1
        return _row(row, tokenizer, vocabulary, f"{file.name}:{line}")

    # Rows of clashing types fail in the reader, or later in a decoder, and neither names a line.
    try:
        return _mapped(datasets, file, made, digest)
    except (datasets.exceptions.DatasetGenerationError, ValueError, TypeError) as error:
        raise _bad_line(file, vocabulary, error) from error


def _mapped(datasets: Any, file: Path, made: Callable[[Mapping[str, Any], int], Row], digest: str) -> Any:
    raw = datasets.load_dataset(_SUFFIXES[file.suffix], data_files=str(file), split="train")
    fingerprint = hashlib.sha256(f"{digest} {file.name} {len(raw)}".encode()).hexdigest()[:16]

    def tokenise(raw_row: Mapping[str, Any], index: int) -> dict[str, object]:
        row = made(raw_row, index)
        return {"input_ids": row.ids, "loss_mask": row.wanted, "origin": row.origin, "length": len(row.ids)}

    return raw.map(tokenise, with_indices=True, remove_columns=raw.column_names, new_fingerprint=fingerprint)


def _row(row: Mapping[str, Any], tokenizer: Any, vocabulary: int, origin: str) -> Row:
    talk = _check(row, vocabulary, origin)
    if talk is None:
        return Row(ids=row["input_ids"], wanted=[int(flag) for flag in row["loss_mask"]], origin=origin)
    made = encode(tokenizer, talk, origin)
    if max(made.ids, default=0) >= vocabulary:
        raise DataError(
            f"{origin}: the tokenizer makes token {max(made.ids)}, and the target's tokens are 0 to {vocabulary - 1}",
            "give the target the tokenizer it was trained with",
        )
    return made


def _check(row: Mapping[str, Any], vocabulary: int, origin: str) -> list[Message] | None:
    """Return the conversation of a row, or None when it is tokens; raises DataError naming `origin`."""
    ids = row.get("input_ids")
    if ids is None:
        return _messages(row, origin)
    wanted = row.get("loss_mask")
    if not isinstance(ids, list) or not isinstance(wanted, list) or len(wanted) != len(ids):
        sizes = [len(part) if isinstance(part, list) else "no list" for part in (ids, wanted)]
        raise DataError(f"{origin}: {sizes[0]} input_ids and {sizes[1]} loss_mask", _SHAPE)
    for place, (token, flag) in enumerate(zip(ids, wanted, strict=True)):
        if type(token) is not int or not 0 <= token < vocabulary:
            raise DataError(
                f"{origin}: input_ids[{place}] is {token!r}, and the target's tokens are 0 to {vocabulary - 1}",
                "tokenise the row with the target's own tokenizer",
            )
        if flag not in (0, 1):
            raise DataError(f"{origin}: loss_mask[{place}] is {flag!r}", "use 1 for the assistant's tokens, else 0")
    return None


def _messages(row: Mapping[str, Any], origin: str) -> list[Message]:
    talk = row.get("conversations") or row.get("messages")
    if not isinstance(talk, list) or not talk:
        raise DataError(f"{origin}: no conversation in the keys {sorted(row)}", _SHAPE)
    for turn, message in enumerate(talk, start=1):
        if not isinstance(message, dict):
            raise DataError(f"{origin}: turn {turn} is {type(message).__name__}, not an object", _SHAPE)
        role, content = message.get("role"), message.get("content")
        if role not in ROLES:
            raise DataError(f"{origin}: turn {turn} has the role {role!r}", f"roles are {', '.join(sorted(ROLES))}")
        if not isinstance(content, str):
            raise DataError(f"{origin}: turn {turn} has no text but {type(content).__name__}", _SHAPE)
    return [{"role": message["role"], "content": message["content"]} for message in talk]


def _line_numbers(file: Path) -> list[int]:
    """Return the line of each row: blank lines are no rows."""
    with file.open("rb") as lines:
        return [number for number, line in enumerate(lines, start=1) if line.strip()]


def _bad_line(file: Path, vocabulary: int, error: Exception) -> DataError:
    """Name the first line that is no usable row; the reader's own error names none."""
    if file.suffix != ".parquet":
        with file.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                found = _bad(line, vocabulary, f"{file.name}:{number}") if line.strip() else None
                if found is not None:
                    return found
    cause = error.__cause__ or error
    return DataError(f"{file}: cannot be read: {str(cause).splitlines()[0]}", _SHAPE)


def _bad(line: bytes, vocabulary: int, origin: str) -> DataError | None:
    try:
        parsed = json.loads(line.decode("utf-8").rstrip("\r\n"))
    except UnicodeDecodeError as bad:
        return DataError(f"{origin}: {not_utf8(bad)[1]}", "save the file as UTF-8")
    except json.JSONDecodeError as bad:
        return DataError(f"{origin}: no JSON: {bad.msg} at column {bad.colno}", _SHAPE)
    if not isinstance(parsed, dict):
        return DataError(f"{origin}: {type(parsed).__name__}, not an object", _SHAPE)
    try:
        _check(parsed, vocabulary, origin)
    except DataError as bad:
        return bad
    return None


def _hash(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


@contextmanager
def _one_at_a_time(name: str) -> Iterator[None]:
    """Let one worker of a host tokenise; the others then find its cache."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "envdoctor"
    base.mkdir(parents=True, exist_ok=True)
    with (base / f"tokenise-{name}.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
