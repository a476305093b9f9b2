"""Rows of a RECORD kept as columns of text: the same rows, made when somebody asks for one."""

import pytest

from envdoctor.probes.venv.parsed_record import odd_rows
from envdoctor.probes.venv.rows import Fields, Rows, binaries, columns_of, ending_in, join, paths_and_sizes, split

ROWS: list[Fields] = [
    ("a/__init__.py", "sha256=abc", "10"),
    ("a/lib.so.1", "", ""),
    ("a/\udcff.pyd", "sha256=é", "0"),
    ("../../bin/a", "sha256=x", "7"),
]


def _remembered(rows: list[Fields], before: bytes = b"before\n") -> Rows:
    data, spans = before, []
    for column in columns_of(rows):
        spans.append((len(data), len(data) + len(column)))
        data += column + b"\n"
    return Rows(len(rows), data, spans)


@pytest.mark.parametrize("rows", [[], ROWS[1:2], [("", "", "")], ROWS])
def test_remembered_rows_are_those_that_were_parsed(rows: list[Fields]) -> None:
    kept = _remembered(rows)
    assert (len(kept), list(kept), columns_of(kept)) == (len(rows), rows, columns_of(rows))
    assert list(paths_and_sizes(kept)) == list(paths_and_sizes(rows)) == [(row[0], row[2]) for row in rows]
    assert binaries(kept) == binaries(rows)
    assert (kept[-1:], kept[:2]) == (rows[-1:], rows[:2])


def test_binaries_are_what_the_loader_or_an_import_may_open() -> None:
    assert binaries(ROWS) == ["a/lib.so.1", "a/\udcff.pyd"]


@pytest.mark.parametrize("text", ["__init__.py", "\udcff.pyd", "bin/a", "a", "before", "sha256=x", "é", ""])
def test_rows_that_end_in_a_text_are_found_in_both_forms(text: str) -> None:
    kept = _remembered(ROWS)
    assert list(ending_in(kept, text)) == ending_in(ROWS, text)


def test_no_row_is_made_to_say_that_there_is_none() -> None:
    kept = _remembered(ROWS)
    assert (ending_in(kept, "nowhere"), kept._made) == ((), None)


def test_a_column_is_read_as_it_was_written() -> None:
    assert split(join(["é", "", "\udc80"])) == ["é", "", "\udc80"]


@pytest.mark.parametrize(
    ("paths", "odd"),
    [
        (["a.py", "b/c.py"], []),
        (["../../../bin/a", "a.py", "../../../bin/b"], [0, 2]),
        (["../../../bin/a", "a/../b.py", "b.py"], [0, 1]),
        (["../../../bin/a", "a.py", "b//c.py"], [0, 2]),
        (["../../../bin/a", "a/b/", "c.py"], [0, 1]),
        (["../../../bin/a", "a.py", "a\0b"], [0, 2]),
        (["a.py", "", "./b.py", "/c.py", "d/./e.py"], [1, 2, 3, 4]),
        (["a/.hidden", "b.py"], [0]),
        ([], []),
    ],
)
def test_rows_whose_path_is_not_plain_are_found(paths: list[str], odd: list[int]) -> None:
    assert odd_rows([(path, "", "") for path in paths]) == odd
