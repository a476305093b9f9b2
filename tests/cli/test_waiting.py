"""A wait is not silent, and what is quick leaves no line in a log."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from envdoctor.cli.hashing import hashing
from tests.factories.run_envdoctor import ROOT, environment

_START = f"""
import sys
sys.path[0] = {str(ROOT)!r}
from envdoctor.cli.waiting import waiting
"""


def test_a_long_wait_says_what_is_going_on_while_it_goes_on(tmp_path: Path) -> None:
    code = f"{_START}\nwith waiting('looking for wheels'):\n    sys.stdin.read()\nprint('done', file=sys.stderr)"
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        # The block ends only when stdin does, so this line came during the wait.
        assert process.stderr.readline() == "looking for wheels\n"
        assert process.communicate()[1] == "done\n"
    assert process.returncode == 0


def test_a_short_wait_says_nothing_and_is_not_prolonged(tmp_path: Path) -> None:
    code = f"{_START}\nwith waiting('looking for wheels', quiet_seconds=1e6):\n    pass"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_an_error_ends_the_wait(tmp_path: Path) -> None:
    code = f"{_START}\nwith waiting('looking for wheels', quiet_seconds=1e6):\n    sys.exit('no wheels')"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "no wheels\n")


def test_a_long_step_is_named_at_once_and_again_while_it_goes_on(tmp_path: Path) -> None:
    code = (
        f"{_START}\nfrom envdoctor.cli.waiting import stage\nwith stage('copying', seconds=0.05):\n    sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        assert [process.stderr.readline() for _ in range(2)] == ["copying\n", "copying: 0 s so far\n"]
        process.communicate()
    assert process.returncode == 0


SLOW = f"""
import sys
sys.path[0] = {str(ROOT)!r}
import time
import envdoctor.doctor.examine as examine
import envdoctor.cli.late as late
late._PATIENCE = 0.05
taken = examine.take_fingerprint
def slowly(*given, **named):
    while not any(watch.spoken for watch in late._WATCHES):
        time.sleep(0.01)
    return taken(*given, **named)
examine.take_fingerprint = slowly
from envdoctor.__main__ import main
main()
"""


@pytest.mark.parametrize("options", [(), ("--exit-zero", "--color", "never")], ids=["read directly", "read by typer"])
def test_a_command_that_only_reads_says_on_a_terminal_that_it_goes_on(tmp_path: Path, options: tuple[str, ...]) -> None:
    """The reading waits for the word here, so that it comes; it is erased before the result."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", SLOW, "check", "/usr", *options],
        cwd=tmp_path,
        env=environment(tmp_path),
        stdout=subprocess.DEVNULL,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        said = os.read(ours, 4096)
        process.wait()
    rest = os.read(ours, 4096)
    os.close(ours)
    assert said.decode().startswith("\r\x1b[Kcheck: still reading: 0 s so far")
    assert (said + rest).decode().endswith("\r\x1b[K")


def test_hashing_tells_in_a_log_how_far_it_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("envdoctor.cli.hashing._FIRST_LINE", 0.0)
    with hashing() as show:
        assert show is not None
        for done in (1_000_000, 2_000_000, 3_000_000):
            show(done, 4_000_000)
    assert capsys.readouterr().err == "hashing: 1.0 MB of 4.0 MB\n"
