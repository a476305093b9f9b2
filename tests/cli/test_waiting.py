"""A wait is not silent, and what is quick leaves no line in a log."""

import subprocess
import sys
from pathlib import Path

from tests.factories.run_envdoctor import ROOT

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
