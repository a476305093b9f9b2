"""A restore without its last step: as far as its wheels are found, and nothing of it is left."""

import json
import os
import re
from pathlib import Path

import pytest

from tests.factories.make_stack import Stack, make_stack
from tests.factories.make_venv import Venv, make_venv, tree_state
from tests.factories.make_wheel import make_wheel, sha256


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    """Make a stack with an old venv in place."""
    made = make_stack(tmp_path)
    make_venv(made.venv, make_wheel(tmp_path / "old", "plain", "2.0"), cache=tmp_path / "another-cache")
    return made


def _rehearse(stack: Stack, *options: str) -> tuple[int, str, str]:
    before = tree_state(stack.venv)
    answer = stack.run("restore", "-p", "small", "--venv", "venv", "--rehearse", *options)
    assert tree_state(stack.venv) == before
    assert list((stack.store / "builds").iterdir()) == []
    assert not (stack.store / "generations").exists()
    # A dist-info file names a temporary folder, whose length is not ours.
    return answer.code, re.sub(r"\(\d+ \w+\)", "(SIZE)", answer.out), answer.err


def test_all_of_it(stack: Stack) -> None:
    code, out, err = _rehearse(stack)
    assert (code, out) == (
        0,
        "rehearsed FOLDER/venv: 3 of 3 packages, 24 files (SIZE) verified by sha256, examined; "
        "the copy is removed again, nothing else was touched\n",
    )
    assert [line.split("  ")[0] for line in err.splitlines() if line.startswith(("Build", "Verify", "Check"))] == [
        *["Build"] * 3,
        "Verify",
        "Check",
    ]


def test_what_is_missing_is_said_after_the_rest_was_verified(stack: Stack) -> None:
    torch = stack.folder / "wheels" / "torch-2.13.0+cpu-py3-none-any.whl"
    digest = sha256(torch)
    torch.unlink()
    code, out, _ = _rehearse(stack)
    hint = out.partition("  hint: ")[2].strip()
    assert (code, out.partition("  hint: ")[0]) == (
        4,
        "rehearsed FOLDER/venv: 2 of 3 packages, 16 files (SIZE) verified by sha256; "
        "the copy is removed again, nothing else was touched\n"
        "missing: torch 2.13.0+cpu\n",
    )
    assert f"(sha256 {digest})" in hint
    assert hint.endswith("put it into a folder, and run again with `--wheelhouse FOLDER`")
    document = json.loads(_rehearse(stack, "--json")[1])
    assert (document["status"], document["result"]["examined"]) == ("rehearsed", False)
    assert [item["name"] for item in document["plan"]["unavailable"]] == ["torch"]


def test_what_would_stop_a_restore_stops_it(stack: Stack) -> None:
    stack.environment["UV_LINK_MODE"] = "hardlink"
    assert stack.run("restore", "-p", "small", "--venv", "other", "--yes").code == 0
    edited = Venv(prefix=stack.folder / "other").site_packages / "plain/__init__.py"
    assert os.stat(edited).st_nlink > 1  # noqa: PTH116
    with edited.open("a") as file:
        file.write("# patched\n")
    code, out, err = _rehearse(stack)
    assert (code, out) == (4, "")
    assert err[err.rindex("error: ") :] == (
        "error: the new venv is not what the lock says: plain: plain/__init__.py: has 30 bytes, not the recorded 20\n\n"
        "hint: uv's cache may hold changed files: `uv cache clean plain`, then run it again\n"
    )
