"""What is said while wheels come over a network: bytes, rate and remaining time, and little of it in a log."""

import os
from pathlib import Path

import pytest

from envdoctor.cli import progress as showing
from envdoctor.cli.rate import Rate
from envdoctor.model.events import Event
from tests.factories.make_index import make_index
from tests.factories.make_stack import make_stack
from tests.factories.make_wheel import make_wheel


class _Clock:
    """Seconds that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_rate_is_of_the_last_seconds_and_tells_what_is_left() -> None:
    clock = _Clock()
    rate = Rate(clock)
    told = [rate.at(0, 1_000_000_000)]
    for clock.now, done in ((5.0, 100_000_000), (10.0, 200_000_000), (30.0, 600_000_000), (60.0, 600_000_000)):
        told.append(rate.at(done, 1_000_000_000))
    assert told == [
        "0 bytes of 1.0 GB",
        "100.0 MB of 1.0 GB, 20.0 MB/s, 45 s left",
        "200.0 MB of 1.0 GB, 20.0 MB/s, 40 s left",
        "600.0 MB of 1.0 GB, 20.0 MB/s, 20 s left",
        "600.0 MB of 1.0 GB, nothing for 30 s",
    ]


def test_without_a_known_end_no_remaining_time_is_told() -> None:
    clock = _Clock()
    rate = Rate(clock)
    rate.at(0, 0)
    clock.now = 200.0
    assert rate.at(1_000_000, 0) == "1.0 MB, 5 kB/s"
    assert Rate(clock).at(1_000_000, 0) == "1.0 MB"


def test_long_waits_are_told_in_minutes_and_hours() -> None:
    clock = _Clock()
    rate = Rate(clock)
    rate.at(0, 10_000_000)
    clock.now = 10.0
    assert rate.at(10_000, 10_000_000) == "10 kB of 10.0 MB, 1 kB/s, 2 h 46 min left"


def test_a_log_gets_a_line_every_ten_seconds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = _Clock()
    monkeypatch.setattr(showing.time, "monotonic", clock)
    with showing.progress() as listen:
        for second in range(26):
            clock.now = float(second)
            text = "2 packages from https://host/simple"
            listen(Event(phase="download", text=text, done=second * 1_000_000, total=100_000_000))
        listen(Event(phase="build", text="2 packages installed", done=2, total=2))
    lines = [line.partition(",")[0] for line in capsys.readouterr().err.splitlines()]
    assert lines == [
        "Download 2 packages from https://host/simple",
        "Download 10.0 MB of 100.0 MB",
        "Download 20.0 MB of 100.0 MB",
        "Build    2 packages installed",
    ]


def test_what_uv_fetches_is_counted_in_bytes_and_its_own_lines_are_not_repeated(tmp_path: Path) -> None:
    large = make_wheel(tmp_path / "wheels", "large", "1.0", files={"large.bin": os.urandom(300_000)})
    stack = make_stack(tmp_path, large)
    with make_index(tmp_path / "wheels", {large.name: "slow"}) as index:
        index.pause = 0.02
        stack.environment |= {"PIP_FIND_LINKS": "", "PIP_NO_INDEX": "", "PIP_INDEX_URL": index.url}
        answer = stack.restore()
        told = [line for line in answer.err.splitlines() if line.startswith(("Build", "Download"))]
        assert answer.code == 0, answer.err
        assert told[1:] == [f"Download 4 packages from {index.url}", "Build    4 packages installed"]
