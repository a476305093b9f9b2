"""The rows of one RECORD, as text says them."""

from envdoctor.model.pattern import pattern
from envdoctor.probes.venv.rows import Fields

# A path as long as Linux takes one (4096), each of its letters quoted, with a hash and a size.
_LONGEST_ROW = 4 * 4096
_DEEPEST_ROW = 200
"""Folders in a path; wheels with copies of node_modules have 30."""
_DIGITS = 20

CODE_FILE = pattern(r"\.(?:py|so)(?:\.\d+)*$")
"""Ends of paths of what an import reads."""
BYTECODE = (".pyc", "/__pycache__")
"""Ends of the paths of which `is_bytecode` is to be asked."""


def is_bytecode(path: str, stated: str = "") -> bool:
    """Tell paths that say nothing about a distribution: what interpreters write, and what virtualenv lists of it.

    A .pyc beside the sources of which a hash or a size is stated is the wheel's own: no interpreter writes one there.
    """
    return path.endswith(BYTECODE) and (not stated or "__pycache__" in path)


def parse_rows(data: bytes) -> tuple[list[Fields], list[int] | None]:
    """Return the rows of a RECORD and the numbers of the lines that are not rows; None where no judgement was needed.

    A name that is not UTF-8 keeps its bytes (surrogateescape), so that the file itself is found.
    """
    text = data.decode("utf-8", "surrogateescape")
    plain = _plain_rows(text)
    return _csv_rows(text) if plain is None else (plain, None)


def unfit(data: bytes) -> str:
    """Return what a row has more of than any path, as "20000 bytes"; empty for none."""
    lines = data.split(b"\n")
    if (longest := max(map(len, lines))) > _LONGEST_ROW:
        return f"{longest} bytes"
    if longest <= _DEEPEST_ROW:
        return ""  # a folder takes a byte at least
    deepest = max(line.count(b"/") for line in lines)
    return f"{deepest} folders" if deepest > _DEEPEST_ROW else ""


def _csv_rows(text: str) -> tuple[list[Fields], list[int]]:
    import csv  # noqa: PLC0415 - few RECORDs quote
    import io  # noqa: PLC0415 - as above

    try:
        whole: list[Fields] = [fields for fields in csv.reader(io.StringIO(text, newline="")) if fields]
    except csv.Error:
        whole = [[]]
    if all(_is_row(fields) for fields in whole):
        return whole, []
    # Line by line: a quotation mark that is never closed must not swallow every row after it.
    rows: list[Fields] = []
    bad: list[int] = []
    for number, line in enumerate(text.split("\n"), 1):
        try:
            fields = next(csv.reader([line.rstrip("\r")]), [])
        except csv.Error:
            fields = ["not a row"]
        if _is_row(fields):
            rows.append(fields)
        elif fields:
            bad.append(number)
    return rows, bad


def most_rows(data: bytes) -> int:
    """Return how many rows there can be; csv ends one at a lone carriage return too."""
    return max(data.count(b"\n"), data.count(b"\r"))


def _plain_rows(text: str) -> list[Fields] | None:
    """Return the rows of a RECORD in which nothing is quoted, missing or no number; None for any other."""
    rows: list[Fields] = [line.rsplit(",", 2) for line in text.split("\n")]
    if rows[-1] == [""]:
        rows.pop()
    if '"' in text or "\r" in text or set(map(len, rows)) - {3}:
        return None
    sizes = [size for _, _, size in rows]
    written = "".join(sizes)
    # isdecimal admits other scripts' digits, which int() reads too; a RECORD holds ASCII.
    if written and not (written.isascii() and written.isdecimal() and len(max(sizes, key=len)) < _DIGITS):
        return None
    return rows


def _is_row(fields: Fields) -> bool:
    # No wheel has a line break in a path; one would begin a line in whatever shows it.
    plain = len(fields) == 3 and "\n" not in fields[0] and "\r" not in fields[0]
    return plain and (not fields[2] or recorded_size(fields[2]) >= 0)


def recorded_size(text: str) -> int:
    """Return the size a row states; -1 for none, or for what is no number."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < _DIGITS else -1
