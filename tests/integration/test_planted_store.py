"""A store that somebody planted beside a venv: nothing outside it is moved or removed."""

import json
from pathlib import Path

import pytest

from tests.factories.make_stack import Stack, make_stack
from tests.factories.make_venv import tree_state


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Stack:
    """Restore a stack once."""
    made = make_stack(tmp_path_factory.mktemp("stack"))
    assert made.restore().code == 0
    return made


def _victim(folder: Path) -> Path:
    home = folder / "home"
    (home / "work").mkdir(parents=True, exist_ok=True)
    (home / "work/thesis.tex").write_text("precious")
    return home


@pytest.mark.parametrize("name", ["builds", "generations"])
@pytest.mark.parametrize(
    "command", [("restore", "--profile", "small", "--force", "--yes"), ("prune", "--keep", "0", "--yes")]
)
def test_a_symlinked_part_of_the_store_is_refused(stack: Stack, name: str, command: tuple[str, ...]) -> None:
    home = _victim(stack.folder)
    before = tree_state(home)
    aside = stack.store / f"{name}-aside"
    part = stack.store / name
    if part.exists():
        part.rename(aside)
    part.symlink_to(home)
    try:
        answer = stack.run(*command, "--venv", "venv")
        assert (answer.code, answer.out) == (4, "")
        assert stack.plain(answer.err).startswith(
            f"error: FOLDER/.envdoctor/venv/{name} is not a real folder, so nothing in it is touched\n"
        )
        assert tree_state(home) == before
    finally:
        part.unlink()
        if aside.exists():
            aside.rename(part)


def test_a_journal_that_names_folders_outside_is_refused(stack: Stack) -> None:
    home = _victim(stack.folder)
    before = tree_state(home)
    entry = {
        "phase": "swapping",
        "command": "restore",
        "profile": "small",
        "build": str(home / "work"),
        "started": "2026-11-29T00:00:00+00:00",
        "keep": str(home / "kept"),
        "old_inode": (home / "work").stat().st_ino,
        "new_inode": 1,
    }
    journal = stack.store / "journal.json"
    journal.write_text(json.dumps(entry))
    try:
        answer = stack.restore()
        assert answer.code == 4
        assert tree_state(home) == before
        assert stack.plain(answer.err) == (
            "error: FOLDER/.envdoctor/venv/journal.json names folders outside FOLDER/.envdoctor/venv, so it is not "
            "envdoctor's\n\nhint: look at it; move it away to go on\n"
        )
    finally:
        journal.unlink(missing_ok=True)
