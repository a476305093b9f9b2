"""What `--yes` and `run --restore` change is what was named, is active, or is in the current folder."""

import subprocess
from pathlib import Path

import pytest

from tests.factories.make_stack import Answer, Stack, make_stack
from tests.factories.make_venv import tree_state

ABOVE = "FOLDER/.venv was found above FOLDER/sub, and is not changed without a question unless it is named"
NAMED = "hint: give the same command with `--venv FOLDER/.venv`"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Stack:
    """Restore twice, so that there is a generation to go back to; a file is gone, so that there is something to do."""
    made = make_stack(tmp_path_factory.mktemp("above"))
    (made.folder / "sub").mkdir()
    for again in ((), ("--force",)):
        answer = made.run("restore", "-p", "small", "--yes", *again)
        assert answer.code == 0, answer.err
    next((made.folder / ".venv").glob("lib/*/site-packages/plain/__init__.py")).unlink()
    return made


def _in(stack: Stack, folder: Path, *arguments: str, **extra: str) -> Answer:
    done = subprocess.run(
        stack.command(*arguments),
        cwd=folder,
        env=stack.environment | extra,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return Answer(code=done.returncode, out=stack.plain(done.stdout), err=stack.plain(done.stderr))


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("restore -p small", f"{NAMED}; with `--venv .venv` for a new one here"),
        ("repair", NAMED),
        ("rollback", NAMED),
        ("prune --keep 0", NAMED),
    ],
)
def test_a_venv_that_was_only_found_above_is_not_changed_unasked(stack: Stack, words: str, hint: str) -> None:
    before, sub = tree_state(stack.folder / ".venv"), stack.folder / "sub"
    refused = _in(stack, sub, *words.split(), "--yes")
    assert refused == Answer(code=2, out="", err=f"error: {ABOVE}\n\n{hint}\n")
    asked = _in(stack, sub, *words.split())
    assert (asked.code, asked.out) == (2, "")
    assert "FOLDER/.venv" in asked.err
    assert asked.err.endswith(
        "error: confirmation needed, but stdin is not a terminal\n\nhint: check the plan, then add `--yes`\n"
    )
    assert _in(stack, sub, *words.split(), "--dry-run").code == 0
    assert _in(stack, sub, *words.split(), "--venv", f"{stack.folder}/.venv", "--dry-run", "--yes").code == 0
    assert tree_state(stack.folder / ".venv") == before


def test_run_restores_nothing_that_was_only_found_above(stack: Stack) -> None:
    before = tree_state(stack.folder / ".venv")
    answer = _in(stack, stack.folder / "sub", "run", "-p", "small", "--restore", "--", "true")
    hint = f"{NAMED}; with `--venv .venv` for a new one here"
    assert (answer.code, answer.out, answer.err) == (2, "", f"error: {ABOVE}\n\n{hint}\n")
    assert tree_state(stack.folder / ".venv") == before


def test_run_restores_no_other_venv_than_the_one_it_starts_on(stack: Stack) -> None:
    before = tree_state(stack.folder / ".venv")
    conda = stack.folder / "conda"
    for folder in ("conda-meta", "bin", "lib/python3.11/site-packages"):
        (conda / folder).mkdir(parents=True)
    (conda / "bin/python3.11").write_bytes(b"")
    (conda / "bin/python").symlink_to("python3.11")
    (conda / "lib/python3.11/os.py").touch()
    command = ("run", "-p", "small", "--restore", "--", "true")
    answer = _in(stack, stack.folder, *command, CONDA_PREFIX=str(conda))
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("envdoctor check  FOLDER/conda   profile small")
    assert answer.err.endswith(
        "\nerror: `--restore` does not rebuild FOLDER/conda, the conda environment that is active and was checked\n\n"
        "hint: name the venv to start on: `--venv FOLDER/.venv`\n"
    )
    gone = _in(stack, stack.folder, *command, CONDA_PREFIX=str(stack.folder / "gone"))
    assert (gone.code, gone.out) == (2, "")
    assert gone.err.startswith("error: $CONDA_PREFIX: FOLDER/gone does not exist\n\nhint: `unset CONDA_PREFIX`, or ")
    assert tree_state(stack.folder / ".venv") == before
