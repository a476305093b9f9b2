"""Asking git: no program that a repository names is started, and what changed is still told."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from envdoctor.capture.training_code import git_state, source_hashes
from envdoctor.facts.programs import outside_venvs
from envdoctor.stack.git import ask_git


def _git(root: Path, *words: str) -> None:
    subprocess.run(
        ["git", "-C", root, "-c", "user.name=a", "-c", "user.email=a@b.invalid", *words],
        check=True,
        capture_output=True,
    )


def test_git_is_never_one_of_a_venv_or_of_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran, root = tmp_path / "ran", tmp_path / "project"
    root.mkdir()
    _git(root, "init", "-q")
    (root / "x.py").write_text("")
    _git(root, "add", ".")
    _git(root, "commit", "-qm", "first")
    (tmp_path / "venv/bin").mkdir(parents=True)
    (tmp_path / "venv/pyvenv.cfg").write_text("")
    for trap in (tmp_path / "venv/bin/git", root / "git"):
        trap.write_text(f"#!/bin/sh\ntouch {ran}\n")
        trap.chmod(0o755)
    monkeypatch.chdir(root)
    environ = dict(os.environ) | {"PATH": f"{tmp_path}/venv/bin:.::{os.environ['PATH']}"}
    assert len(git_state(root, environ).commit) == 40
    assert outside_venvs("git", environ) == shutil.which("git")
    assert outside_venvs("uv", {"PATH": str(tmp_path / "venv/bin")}) is None
    assert not ran.exists()


def test_no_program_of_the_repository_runs(tmp_path: Path) -> None:
    root, ran = tmp_path / "project", tmp_path / "ran"
    root.mkdir()
    _git(root, "init", "-q")
    for name in ("train.py", "other.py"):
        (root / name).write_text("x = 1\n")
    _git(root, "add", ".")
    _git(root, "commit", "-qm", "first")
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\necho $0 $@ >> {ran}\ncat\n")
    trap.chmod(0o755)
    (root / ".gitattributes").write_text("*.py filter=evil diff=evil\n")
    for key in ("filter.evil.clean", "filter.evil.process", "filter.evil.smudge", "core.fsmonitor", "gpg.program",
                "diff.external", "diff.evil.textconv", "core.pager", "core.sshCommand"):  # fmt: skip
        _git(root, "config", key, str(trap))
    for key in ("filter.evil.required", "log.showSignature"):
        _git(root, "config", key, "true")
    (root / "train.py").write_text("x = 2\n")
    # A time that the index does not have: git must look at the content.
    os.utime(root / "other.py", (1, 1))
    state = git_state(root, dict(os.environ))
    assert (len(state.commit), state.changed) == (40, ("train.py",))
    assert sorted(source_hashes(root, (), dict(os.environ))[0]) == ["other.py", "train.py"]
    assert ask_git(root, dict(os.environ), "show", "HEAD:./train.py") == b"x = 1\n"
    assert ask_git(root, dict(os.environ), "log", "--format=%s") == b"first\n"
    assert not ran.exists(), ran.read_text()
