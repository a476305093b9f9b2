"""A stdout that takes nothing: a full disk, a pipe whose reader has left, a closed one. No traceback, nothing lost."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from trainer import plan, warmup, writing
from trainer.__main__ import main
from trainer.errors import OutputError
from trainer.planning.layouts import Measured

ROOT = Path(__file__).resolve().parents[2]
TINY = [
    "--profile", "cpu-smoke", "--set", "drafter.layers=1", "--set", "drafter.anchors=2", "--set", "data.tokens=64",
    "--set", "data.buckets=[64]", "--set", "run.log_every=1",
]  # fmt: skip
FULL = "stdout: cannot be written: No space left on device"
CLOSED = "stdout: cannot be written: it is closed"
ELSEWHERE = "hint: make room, or send stdout to another file"


def full() -> Any:
    return Path("/dev/full").open("w")


def left() -> Any:
    reader, writer = os.pipe()
    os.close(reader)
    return os.fdopen(writer, "w")


STATES: dict[str, tuple[Callable[[], Any], str]] = {
    "full": (full, FULL), "left": (left, ""), "closed": (nullcontext, CLOSED),
}  # fmt: skip


@pytest.mark.parametrize("state", STATES)
def test_a_run_whose_summary_cannot_be_shown_has_ended_well(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], state: str
) -> None:
    assert cache.is_dir()
    make, told = STATES[state]
    output = tmp_path / "run"
    with monkeypatch.context() as patch, make() as stdout:
        patch.setattr(sys, "stdout", stdout)
        flags = ["--steps", "2", "--set", "run.evaluate=1", "--set", "run.evaluate_tokens=4", "--quiet"]
        assert main([*TINY, *flags, "--output", str(output)]) == 0
    said = capfd.readouterr().err
    notes = [f"note: {told}; what it would show is in {output}"] if told else []
    assert [line for line in said.splitlines() if line.startswith("note")] == notes
    assert "Traceback" not in said
    assert (output / "evaluation.json").is_file()
    assert (output / "drafter" / "config.json").is_file()


@pytest.mark.parametrize("command", ["plan", "plan --json", "warmup"])
@pytest.mark.parametrize("state", STATES)
def test_a_result_that_cannot_be_written_is_an_error(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], command: str, state: str
) -> None:
    assert cache.is_dir()
    make, told = STATES[state]
    monkeypatch.setattr("trainer.planning.measure.measure", lambda *_: Measured(
        tokens=64, target_seconds=1.0, drafter_seconds=2.0, target_gb=1.0, apart_gb=1.0, both_gb=2.0,
        device_gb=3.0,
    ))  # fmt: skip
    monkeypatch.setattr(warmup, "_warm", lambda *_: {"schema_version": 1})
    name, *flags = command.split()
    with monkeypatch.context() as patch, make() as stdout:
        patch.setattr(sys, "stdout", stdout)
        assert {"plan": plan, "warmup": warmup}[name].main([*TINY, *flags]) == (2 if told else 0)
    said = capfd.readouterr().err
    assert [line for line in said.splitlines() if line.startswith(("error", "hint"))] == (
        [f"error: {told}", ELSEWHERE] if told else []
    )
    assert "Traceback" not in said


def test_a_closed_stderr_leaves_stdout_to_the_result(cache: Path) -> None:
    assert cache.is_dir()
    # The shell closes it: a Popen cannot.
    command = [sys.executable, "-m", "trainer.plan", *TINY, "--set", "run.evaluate=0", "--json"]
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" 2>&-', "sh", *command], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False
    )
    assert done.returncode == 0
    assert json.loads(done.stdout)["layouts"][0]["flags"] == "--runtime inline"


def test_without_a_stderr_nothing_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", None)
        writing.say("progress")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("name", ["", ".plan", ".curves", ".regenerate", ".warmup"])
def test_help_on_a_stdout_that_takes_nothing(name: str) -> None:
    command = [sys.executable, "-m", f"trainer{name}", "--help"]
    # argparse passes over what a write without a buffer raises.
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    for state, code, said in ((full, 2, f"error: {FULL}\n"), (left, 0, "")):
        with state() as stdout:
            done = subprocess.run(
                command, cwd=ROOT, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False, env=buffered
            )
        assert (done.returncode, done.stderr) == (code, said)


def test_signs_that_stdout_cannot_show_are_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    held = io.BytesIO()
    with monkeypatch.context() as patch, io.TextIOWrapper(held, encoding="ascii", write_through=True) as stdout:
        patch.setattr(sys, "stdout", stdout)
        writing.write_result("✔ 0 compilations\n")
        assert held.getvalue() == b"\\u2714 0 compilations\n"


def test_an_error_of_another_kind_is_told_with_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    with Path(os.devnull).open() as reading:
        stdout = os.fdopen(os.dup(reading.fileno()), "w")
    with monkeypatch.context() as patch, stdout:
        patch.setattr(sys, "stdout", stdout)
        with pytest.raises(OutputError) as caught:
            writing.write_result("x")
    assert caught.value.message == "stdout: cannot be written: Bad file descriptor"
