"""The rows of one RECORD, which stay text in columns until somebody asks for a row.

A stack of 90 distributions has 26,000 rows. To make them takes as long as reading everything else about it, and a
check of a healthy stack asks for few: what most probes look for among them, binaries, is a column of its own.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import overload

Fields = Sequence[str]
"""Path, hash and size of a row, each as written. There are tens of thousands."""
Span = tuple[int, int]
"""Where a column of texts, with a line end between them, begins and ends in what holds it."""


class Rows(Sequence[Fields]):
    """Rows that an earlier run parsed."""

    def __init__(self, count: int, data: bytes, spans: Sequence[Span]) -> None:
        """Take how many there are, and where in `data` the columns are that `columns_of` made of them."""
        self._count, self._data, self._spans = count, data, spans
        self._made: list[Fields] | None = None

    def __len__(self) -> int:
        """Return how many there are."""
        return self._count

    @overload
    def __getitem__(self, at: int) -> Fields: ...
    @overload
    def __getitem__(self, at: slice) -> list[Fields]: ...
    def __getitem__(self, at: int | slice) -> Fields | list[Fields]:
        """Return one or several."""
        return self._rows[at]

    def __iter__(self) -> Iterator[Fields]:
        """Return an iterator over all of them."""
        return iter(self._rows)

    def texts(self, column: int) -> list[str]:
        """Return what one column holds."""
        begin, end = self._spans[column]
        return split(self._data[begin:end]) if self._count else []

    @property
    def columns(self) -> list[bytes]:
        """All of them."""
        return [self._data[begin:end] for begin, end in self._spans]

    def may_list(self, text: str) -> bool:
        """Tell whether a path can have that text in it; most have not, and no row is made to tell."""
        return self._data.find(join([text]), *self._spans[0]) >= 0

    @property
    def _rows(self) -> list[Fields]:
        if self._made is None:
            self._made = list(zip(*map(self.texts, range(3)), strict=True))
        return self._made


def columns_of(rows: Sequence[Fields]) -> list[bytes]:
    """Return paths, hashes, sizes and the paths of binaries."""
    if isinstance(rows, Rows):
        return rows.columns
    return [*(join(row[at] for row in rows) for at in range(3)), join(binaries(rows))]


def paths_and_sizes(rows: Sequence[Fields]) -> Iterable[tuple[str, str]]:
    """Return (path, size) of each row, as written."""
    if isinstance(rows, Rows):
        return zip(rows.texts(0), rows.texts(2), strict=True)
    return ((row[0], row[2]) for row in rows)


def binaries(rows: Sequence[Fields]) -> list[str]:
    """Return the paths of shared objects and extension modules: those with ".so" in them, or ".pyd" at their end."""
    if isinstance(rows, Rows):
        return [path for path in rows.texts(3) if path]
    return [row[0] for row in rows if ".so" in row[0] or row[0].endswith(".pyd")]


def ending_in(rows: Sequence[Fields], text: str) -> Sequence[Fields]:
    """Return the rows whose path ends in a text."""
    if isinstance(rows, Rows) and not rows.may_list(text):
        return ()
    return [row for row in rows if row[0].endswith(text)]


def largest(rows: Sequence[Fields]) -> tuple[int, str]:
    """Return a sort key by the largest size that the rows state: of numbers as text the longer is the larger."""
    sizes = [row[2] for row in rows]
    longest = max(map(len, sizes), default=0)
    return longest, max((size for size in sizes if len(size) == longest), default="")


def join(texts: Iterable[str]) -> bytes:
    """Return a column."""
    return "\n".join(texts).encode("utf-8", "surrogateescape")


def split(column: bytes) -> list[str]:
    """Return the texts of a column; one of no text and one of an empty text are the same."""
    return column.decode("utf-8", "surrogateescape").split("\n")
