"""Pipes, sockets and devices of a venv in the copy that takes its place."""

import os
from pathlib import Path

from envdoctor.trial.undo import _keep_special


def _pipe(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path)
    return path


def test_nothing_is_written_through_a_link_of_the_copy_or_over_what_it_has(tmp_path: Path) -> None:
    venv, copy, outside = (tmp_path / name for name in ("venv", "copy", "outside"))
    for folder in (venv, copy, outside, copy / "there"):
        folder.mkdir()
    kept = [_pipe(venv / name) for name in ("top", "there/pipe", "not/there/yet/pipe")]
    left = [_pipe(venv / name) for name in ("linked/pipe", "linked/deep/pipe", "file/pipe", "taken", "dangling")]
    (copy / "linked").symlink_to(outside)
    (copy / "file").write_text("a file")
    (copy / "taken").write_text("mine")
    (copy / "dangling").symlink_to(outside / "nothing")
    assert sorted(_keep_special(venv, copy)) == sorted(left)
    assert [(copy / path.relative_to(venv)).samefile(path) for path in kept] == [True, True, True]
    assert list(outside.iterdir()) == []
    assert ((copy / "file").read_text(), (copy / "taken").read_text()) == ("a file", "mine")
