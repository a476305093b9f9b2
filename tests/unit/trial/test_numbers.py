"""What a number says of a copy: shares of negative numbers, of nothing, and what is not a number."""

from pathlib import Path

import pytest

from envdoctor.trial.command import Criterion, judge


@pytest.mark.parametrize(
    ("printed", "reference", "drop", "outcome", "why"),
    [
        ("-3.0", -3.0, -0.2, "good", "-3; bad is at least -2.4"),
        ("-1.0", -3.0, -0.2, "bad", "-1; bad is at least -2.4"),
        ("8", 10.0, 0.2, "bad", "8; bad is at most 8"),
        ("9", 10.0, 0.2, "good", "9; bad is at most 8"),
        ("nan", 10.0, -0.2, "bad", "nan; bad is at least 12"),
        ("0", None, 0.2, "skip", "0, of which no share can be taken"),
        ("inf", None, 0.2, "skip", "inf, of which no share can be taken"),
        ("2.5", None, 0.2, "good", "2.5"),
    ],
)
def test_a_number(tmp_path: Path, printed: str, reference: float | None, drop: float, outcome: str, why: str) -> None:
    wanted = Criterion(pattern=r"loss=(\S+)", drop=drop)
    command = ["sh", "-c", f"echo loss={printed}"]
    said: list[str] = []
    judged = judge(
        command,
        {"PATH": "/usr/bin:/bin"},
        tmp_path,
        tmp_path / "log",
        wanted,
        reference,
        said.append,
    )
    assert (judged.outcome, judged.why) == (outcome, why)
