"""What a watch reads of a metrics file: all of it, and none of its own lines."""

from pathlib import Path

from envdoctor.facts.host import Host
from envdoctor.watch.readings import RateRead, RateReader, pattern_of
from envdoctor.watch.supervise import Watching, watched


def test_a_line_of_the_watch_is_no_reading() -> None:
    reader = RateReader(pattern=pattern_of(""))
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
