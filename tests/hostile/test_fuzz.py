"""A part of `make fuzz` in every run, and the fuzzing itself: it finds what fails, and gives up what hangs."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.factories.run_envdoctor import ROOT
from tests.hostile import fuzz
from tests.hostile.readers import Subject

NAMES = fuzz.names()


@pytest.mark.parametrize("each", [25, pytest.param(150, marks=pytest.mark.giant)])
def test_no_mutated_file_ends_a_reader(each: int) -> None:
    """About 1,000 inputs, or 6,000; each run draws the same ones, `make fuzz` others."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.hostile.fuzz", "--each", str(each), "--seed", "1"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=dict(os.environ),
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].endswith(f"over {len(NAMES)} readers, 0 failures")


def test_every_reader_refuses_or_answers_an_empty_file_and_its_own(tmp_path: Path) -> None:
    for name, subject in fuzz.subjects(tmp_path.resolve()).items():
        for data in (subject.seed, b"", b"\0" * 100, b"\n" * 100):
            assert fuzz._attempt(subject, data) == "", name


def _failing(data: bytes) -> None:
    if data.startswith(b"bad"):
        raise AttributeError("not foreseen")
    if data.startswith(b"slow"):
        until = time.process_time() + 60
        while time.process_time() < until:
            pass


def test_what_fails_is_found_and_what_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "SECONDS", 0.2)
    subject = Subject(read=_failing, seed=b"good")
    reads = [b"good", b"bad", b"slow", b"refused"]
    monkeypatch.setattr(fuzz, "inputs", lambda *_: iter(reads))
    count, failures, _ = fuzz.run("x", subject, 4, 1)
    assert (count, [data for data, _ in failures]) == (4, [b"bad", b"slow"])
    assert "AttributeError: not foreseen" in failures[0][1]
    assert failures[1][1] == "more than 0.2 s"


def test_the_same_seed_gives_the_same_inputs() -> None:
    subject = Subject(read=_failing, seed=b"a file as it should be")
    first, again, other = (list(fuzz.inputs("x", subject, 50, seed)) for seed in (1, 1, 2))
    assert (first == again, first == other, len(set(first)) > 40) == (True, False, True)
