"""A restore as a person at a terminal sees it: the plan, one question, bars."""

import os
import pty
import re
import subprocess
from pathlib import Path

import pytest

from tests.factories.make_stack import Stack, make_stack


def _at_a_terminal(stack: Stack, answer: str) -> tuple[int, str, str]:
    """Run a restore with a terminal for stdin and stderr; return exit code, stdout, and what the terminal showed."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        stack.command("restore", "--profile", "small", "--venv", "venv"),
        cwd=stack.folder, env=stack.environment | {"TERM": "xterm"}, stdin=theirs, stdout=subprocess.PIPE,
        stderr=theirs, text=True,
    )  # fmt: skip
    os.close(theirs)
    os.write(ours, answer.encode())
    shown = b""
    while True:
        try:
            shown += os.read(ours, 4096)
        except OSError:  # the terminal's other end was closed
            break
    out = process.communicate(timeout=60)[0]
    os.close(ours)
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode().replace("\r", ""))
    return process.returncode, stack.plain(out), stack.plain(plain)


def test_yes_restores_and_shows_a_bar_for_each_phase(tmp_path: Path) -> None:
    stack = make_stack(tmp_path)
    code, out, shown = _at_a_terminal(stack, "y\n")
    assert (code, out) == (0, "restored FOLDER/venv: 3 packages, 24 files (1 kB) verified by sha256\n")
    assert "Restore FOLDER/venv? [y/N] " in shown
    phases = ["Build", "Verify", "Check", "Swap"]
    assert [title for title in phases if re.search(rf"{title} +━", shown)] == phases


@pytest.mark.parametrize("answer", ["n\n", "\n"])
def test_no_changes_nothing(tmp_path: Path, answer: str) -> None:
    stack = make_stack(tmp_path)
    code, out, shown = _at_a_terminal(stack, answer)
    assert (code, out) == (130, "")
    assert shown.endswith("error: declined\nFOLDER/venv was not created\n")
    assert not stack.venv.exists()
    assert not stack.store.exists()


def test_ctrl_d_at_the_question_changes_nothing(tmp_path: Path) -> None:
    stack = make_stack(tmp_path)
    code, out, shown = _at_a_terminal(stack, "\x04")
    assert (code, out) == (130, "")
    assert shown.endswith("error: interrupted\nFOLDER/venv was not created\n")
    assert not stack.venv.exists()
