"""What a watch reads of a metrics file: all of it, and none of its own lines."""

import subprocess
import sys
from pathlib import Path

import pytest

from envdoctor.facts.host import Host
from envdoctor.watch.readings import RateRead, reader_of
from envdoctor.watch.supervise import Watching, watched


def test_a_line_of_the_watch_is_no_reading() -> None:
    reader = reader_of("")
    said = b'{"event": "watch", "kind": "slow", "text": "5,310 of 21,500 tok/s", "share": 0.25}\n'
    assert list(reader.feed(said + b'{"event": "step", "tokens_per_second": 5310.0}\n')) == [
        RateRead(tokens_per_second=5310.0)
    ]


def test_a_file_that_grows_fast_is_read_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "all").write_text(f"{'no number':39}\n" * 15_000)
    said: list[str] = []
    wanted = Watching(expected=1.0, flat_within=0.0, profile="good", metrics=tmp_path / "grows")
    command = ["cp", str(tmp_path / "all"), str(tmp_path / "grows")]
    assert watched(command, Host.current(), Path("/nowhere"), wanted, said.append) == 0
    assert f"none of 15000 lines of {tmp_path}/grows has tokens a second" in "".join(said)


@pytest.mark.parametrize(
    ("line", "rate"),
    [
        ("step 7 17,300 tok/s", 17_300),
        ("21.5k tokens/s", 21_500),
        ("tok/s=17300", 17_300),
        ("tokens_per_second: 17300", 17_300),
        ("rate_17300 tok/s", 17_300),
        ("ids 1,2,3; 17_300.5 tokens per second", 17_300.5),
        ("x" * 60_000 + " 17,300 tok/s", 17_300),
    ],
)
def test_spellings_of_a_rate(line: str, rate: float) -> None:
    assert list(reader_of("").feed(line.encode() + b"\n")) == [RateRead(tokens_per_second=rate)]


def test_a_line_comes_in_any_chunks() -> None:
    reader = reader_of("")
    data = b"1 tok/s\r2 tok/s\r\n\n" + b"x" * 70_000 + b" 3 tok/s\n4 tok/s\n5 tok/s"
    found = [read.tokens_per_second for at in range(0, len(data), 7) for read in reader.feed(data[at : at + 7])]
    assert (found, reader.lines, reader.passed) == ([1, 2, 4], 3, 0)


# What does not end is ended by the limit of processor time, a hundred times what it needs.
LIMITED = """\
import resource
resource.setrlimit(resource.RLIMIT_CPU, (30, 30))
from envdoctor.watch.readings import reader_of
"""


def limited(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", LIMITED + program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_long_lists_of_numbers_take_a_time_that_grows_with_them() -> None:
    program = """
kinds = ("1", "1,", "1_", "1.", "1.1", ",_", "1 ", "1k ", "tok/s", "tok ", "tok/s ", "tokens_per_second", "1 tok")
reader = reader_of("")
for kind in kinds:
    for _ in range(5):
        list(reader.feed((kind * (60_000 // len(kind)) + "\\n").encode()))
print(reader.lines, reader.passed)
"""
    assert limited(program) == "65 0\n"


def test_a_pattern_that_takes_too_long_is_stopped_and_said() -> None:
    program = r"""
reader = reader_of(r"(?:[0-9]+)+x([0-9])")
list(reader.feed(b"9" * 60 + b"\n"))
print(reader.lines, reader.passed, [one.tokens_per_second for one in reader.feed(b"9x5\n")])
square = reader_of("([0-9]+)x")
for _ in range(2000):
    list(square.feed(b"9" * 60_000 + b"\n"))
print(square.lines, square.passed > 1000)
"""
    assert limited(program) == "1 1 [5.0]\n2000 True\n"
