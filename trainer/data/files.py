"""Files of rows: JSON lines, a JSON list, Parquet and Arrow, one row after the other, each with where it came from.

A row that cannot be read is given as the DataError that names its line: the caller decides whether it ends the run.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from trainer.data.conversation import SHAPE
from trainer.errors import DataError, not_utf8, too_much

SUFFIXES = (".jsonl", ".json", ".parquet", ".arrow")
_KINDS = "a .jsonl, .json, .parquet or .arrow file, or a folder of them"

RawRow = tuple[str, Mapping[str, Any] | DataError]
"""Origin ("chats.jsonl:12", counted from 1) and the row, or why there is none."""


def files_of(path: Path) -> list[Path]:
    """Return the file, or the readable files of a folder by name; raises DataError when there is none."""
    if path.is_file():
        found = [path]
    elif path.is_dir():
        found = _in_folder(path)
    else:
        raise DataError(f"data.path {path}: no such file or folder", f"give {_KINDS}")
    if not found or any(file.suffix not in SUFFIXES for file in found):
        raise DataError(f"data.path {path}: no {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]} file", f"give {_KINDS}")
    return found


def _in_folder(path: Path) -> list[Path]:
    """Return the files of rows in a folder; of one that `datasets` saved, those that its state.json lists."""
    if (path / "dataset_dict.json").is_file():
        splits = ", ".join(sorted(str(each.parent) for each in path.glob("*/state.json")))
        raise DataError(f"data.path {path}: a data set of several splits", f"name the folder of a split: {splits}")
    if (path / "state.json").is_file() and (path / "dataset_info.json").is_file():
        try:
            told = json.loads((path / "state.json").read_text(encoding="utf-8"))
            return [path / each["filename"] for each in told["_data_files"]]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path / 'state.json'}: cannot be read: {error}", "save the data set again") from error
    return sorted(file for file in path.iterdir() if file.suffix in SUFFIXES)


def raw_rows(file: Path) -> Iterator[RawRow]:
    """Yield the rows of a file; raises DataError when the file as a whole cannot be read or holds no row."""
    empty = True
    try:
        for row in _reader(file)(file):
            empty = False
            yield row
    except OSError as error:
        raise unreadable(file, error) from error
    if empty:
        raise DataError(f"{file}: holds no row", "give a file with conversations, or remove this one")


def unreadable(file: Path, error: OSError) -> DataError:
    """Return the error of a file that the system does not read."""
    return DataError(f"{file}: cannot be read: {error.strerror or error}", "check its rights and the disk it is on")


def _reader(file: Path) -> Any:
    if file.suffix == ".parquet":
        return _parquet
    if file.suffix == ".arrow":
        return _arrow
    if file.suffix == ".json" and _starts_a_list(file):
        return _json_list
    return _json_lines


def _starts_a_list(file: Path) -> bool:
    with file.open("rb") as opened:
        return opened.read(4096).lstrip()[:1] == b"["


def _json_lines(file: Path) -> Iterator[RawRow]:
    with file.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                origin = f"{file.name}:{number}"
                yield origin, _parsed(line, origin)


def _parsed(line: bytes, origin: str) -> Mapping[str, Any] | DataError:
    try:
        return _object(json.loads(line.decode("utf-8").rstrip("\r\n")), origin)
    except UnicodeDecodeError as bad:
        return DataError(f"{origin}: {not_utf8(bad)[1]}", "save the file as UTF-8")
    except json.JSONDecodeError as bad:
        return DataError(f"{origin}: not JSON: {bad.msg} at column {bad.colno}", SHAPE)
    except (ValueError, RecursionError) as bad:
        return DataError(f"{origin}: not JSON that can be read: {too_much(bad)}", SHAPE)


def _object(value: object, origin: str) -> Mapping[str, Any] | DataError:
    if isinstance(value, dict):
        return value
    return DataError(f"{origin}: {type(value).__name__}, not an object", SHAPE)


def _json_list(file: Path) -> Iterator[RawRow]:
    try:
        rows = json.loads(file.read_text(encoding="utf-8"))
    except UnicodeDecodeError as bad:
        line, problem = not_utf8(bad)
        raise DataError(f"{file}: line {line}: {problem}", "save the file as UTF-8") from bad
    except (ValueError, RecursionError) as bad:
        raise DataError(f"{file}: not JSON that can be read: {too_much(bad)}", SHAPE) from bad
    for number, row in enumerate(rows, start=1):
        origin = f"{file.name}:{number}"
        yield origin, _object(row, origin)


def _parquet(file: Path) -> Iterator[RawRow]:
    import pyarrow.parquet  # noqa: PLC0415 - needed for these files only, and slow to import

    with _columnar(file), pyarrow.parquet.ParquetFile(file) as opened:
        yield from _batches(file, opened.iter_batches(batch_size=256))


def _arrow(file: Path) -> Iterator[RawRow]:
    import pyarrow as pa  # noqa: PLC0415 - as above

    with _columnar(file), pa.memory_map(str(file)) as mapped:
        try:
            opened = pa.ipc.open_file(mapped)
            batches: Any = (opened.get_batch(at) for at in range(opened.num_record_batches))
        except pa.ArrowInvalid:
            # Without the footer of a file it is a stream, as `datasets` writes its cache.
            mapped.seek(0)
            batches = pa.ipc.open_stream(mapped)
        yield from _batches(file, batches)


def _batches(file: Path, batches: Any) -> Iterator[RawRow]:
    number = 0
    for batch in batches:
        for row in _plain(batch):
            number += 1
            origin = f"{file.name}:{number}"
            if isinstance(row, Exception):
                yield origin, DataError(f"{origin}: cannot be read: {row}", "fix or remove the row")
            else:
                yield origin, {key: value for key, value in row.items() if value is not None}


def _plain(batch: Any) -> Iterator[Any]:
    """Yield the rows of a record batch, and for those that Python cannot hold why: text that is not UTF-8, say."""
    try:
        yield from batch.to_pylist()
    except (ValueError, ArithmeticError):
        for at in range(len(batch)):
            try:
                yield batch.slice(at, 1).to_pylist()[0]
            except (ValueError, ArithmeticError) as bad:
                yield bad


@contextmanager
def _columnar(file: Path) -> Iterator[None]:
    """Turn pyarrow's errors about a file into a DataError that names it."""
    import pyarrow as pa  # noqa: PLC0415 - as above

    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{file}: cannot be read: {str(error).splitlines()[0]}", SHAPE) from error
