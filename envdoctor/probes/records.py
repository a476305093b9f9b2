"""Every RECORD row of the environment, in memory: who owns which path."""

import csv
import os
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from envdoctor.probes.context import Reading
from envdoctor.probes.distributions import Distribution, Distributions
from envdoctor.probes.regular_file import read_regular

_MAXIMUM_RECORD = 64 * 1024 * 1024


class Row(NamedTuple):
    """One RECORD row. A plain tuple: there are tens of thousands."""

    path: str
    """As written."""
    hash: str
    """"sha256=…" or empty."""
    size: int
    """-1 when the row states none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordIndex:
    """RECORD rows by distribution, and owners by absolute path."""

    rows: dict[int, list[Row]]
    """Index into `Distributions.items` -> its rows."""
    owners: dict[str, int]
    """Absolute path inside the prefix -> index of the first owner."""
    contested: dict[str, list[tuple[int, Row]]]
    """Absolute path -> all owners, where there are several."""
    outside: list[tuple[int, str]]
    """Rows that lead out of the environment: (owner, path as written). Never read, hashed or removed."""
    malformed: list[tuple[int, str]]
    """Rows or whole RECORDs that could not be read: (owner, reason)."""


def index(reading: Reading) -> RecordIndex:
    """Read every RECORD once."""
    return reading.material(RecordIndex, _index)


def _index(reading: Reading) -> RecordIndex:
    made = RecordIndex(rows={}, owners={}, contested={}, outside=[], malformed=[])
    inside = str(reading.target.prefix) + os.sep
    for at, item in enumerate(reading.fact(Distributions).items):
        if not item.has_record:
            continue
        # A leaked folder (PYTHONPATH, user site) is its own root: its rows may not climb out of it.
        root = inside if (item.site + os.sep).startswith(inside) else item.site + os.sep
        _claim(made, at, item, root)
    return made


def _claim(made: RecordIndex, at: int, item: Distribution, root: str) -> None:
    rows, problems = _parse(Path(item.site, item.folder, "RECORD"))
    made.malformed.extend((at, problem) for problem in problems)
    kept: list[Row] = []
    base = item.site + os.sep
    for row in rows:
        path = row.path
        if path.startswith("/") or ".." in path or "\0" in path or not path:
            full = "" if "\0" in path or not path else os.path.normpath(os.path.join(base, path))  # noqa: PTH118
            if not full.startswith(root):
                made.outside.append((at, path))
                continue
        else:
            full = base + path
        kept.append(row)
        first = made.owners.setdefault(full, at)
        if first != at:
            made.contested.setdefault(full, [(first, _row_of(made, first, full, base))]).append((at, row))
    made.rows[at] = kept


def _row_of(made: RecordIndex, owner: int, full: str, base: str) -> Row:
    relative = full.removeprefix(base)
    return next((row for row in made.rows[owner] if row.path == relative), Row(relative, "", -1))


def _parse(path: Path) -> tuple[list[Row], list[str]]:
    try:
        text = read_regular(path, _MAXIMUM_RECORD).decode("utf-8", "replace")
    except OSError as error:
        return [], [f"{path}: {error.strerror or error}"]
    rows: list[Row] = []
    problems: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line:
            continue
        row = _row(line)
        if row is None:
            problems.append(f"{path}:{number}: not a RECORD row")
        else:
            rows.append(row)
    return rows, problems


def _row(line: str) -> Row | None:
    if '"' in line:
        try:
            fields = next(csv.reader([line]))
        except (csv.Error, StopIteration):
            return None
    else:
        fields = line.rsplit(",", 2)
    if len(fields) != 3:
        return None
    path, digest, size = fields
    if not size:
        return Row(path, digest, -1)
    # isdecimal admits other scripts' digits, which int() reads too; a RECORD holds ASCII.
    return Row(path, digest, int(size)) if size.isascii() and size.isdecimal() and len(size) < 20 else None
