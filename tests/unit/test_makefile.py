"""`make` on a machine that lacks something: one clear message before anything is made."""

import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.factories.run_envdoctor import ROOT

NEEDED = ("bash", "make", "sed")


def machine(folder: Path, *programs: str, python: bool = True) -> Path:
    """Return a PATH folder that holds only these programs, and a python3 that works or is a shim without a Python."""
    folder.mkdir()
    for name in (*NEEDED, *programs):
        found = shutil.which(name)
        assert found is not None, f"{name} is needed to test make"
        (folder / name).symlink_to(found)
    if python:
        (folder / "python3").symlink_to(sys.executable)
    else:
        shim = folder / "python3"
        shim.write_text("#!/bin/sh\nexit 127\n")
        shim.chmod(shim.stat().st_mode | stat.S_IXUSR)
    return folder


def make(path: Path, *arguments: str, folder: Path = ROOT) -> tuple[int, str, str]:
    done = subprocess.run(
        [str(path / "make"), "--no-print-directory", *arguments],
        cwd=folder,
        env={"PATH": str(path), "LC_ALL": "C"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("programs", "python", "message", "hint"),
    [
        (
            ["c++"],
            False,
            "no Python 3.11 or newer answers as python3 or python3.11 to python3.14",
            "install one, or name it: make toolchain PYTHON=/path/to/python3",
        ),
        (
            [],
            True,
            "no C++ compiler (c++, g++ or clang++); torch.compile builds its CPU kernels with one",
            "install one (Debian and Ubuntu: apt install g++), or name it: CXX=/path/to/c++",
        ),
    ],
    ids=["no Python", "no compiler"],
)
def test_what_is_missing_is_said(tmp_path: Path, programs: list[str], python: bool, message: str, hint: str) -> None:  # noqa: FBT001
    code, out, err = make(machine(tmp_path / "bin", *programs, python=python), "toolchain")
    assert (code, out) == (2, "")
    assert err.splitlines()[:2] == [f"error: {message}", f"hint: {hint}"]


def test_a_complete_machine_passes(tmp_path: Path) -> None:
    assert make(machine(tmp_path / "bin", "c++"), "toolchain") == (0, "", "")


def test_help_lists_every_target(tmp_path: Path) -> None:
    code, out, _ = make(machine(tmp_path / "bin", "c++"))
    listed = [line.split()[1] for line in out.splitlines()]
    declared = (ROOT / "Makefile").read_text().partition(".PHONY: ")[2].splitlines()[0].split()
    assert (code, sorted(listed)) == (0, sorted(set(declared) - {"help", "toolchain", "committed"}))


def test_a_message_is_printed_when_it_is_meant_only() -> None:
    """A recipe line that make prints would show the hint of a failure in every run."""
    text = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    speaking = [line for line in text.splitlines() if line.startswith("\t") and "echo" in line]
    assert len(speaking) > 5
    assert [line for line in speaking if not line.startswith("\t@")] == []


def test_make_run_ends_with_the_launch_line_of_the_readme(tmp_path: Path) -> None:
    _, out, _ = make(machine(tmp_path / "bin", "c++", "sh"), "--dry-run", "run")
    last = out.splitlines()[-1].removeprefix('echo "for a launch script: ').removesuffix('"')
    assert f"\n    {last}\n" in (ROOT / "README.md").read_text()


def test_continuous_integration_runs_make_test() -> None:
    script = (ROOT / ".ci/run").read_text()
    assert script.startswith("#!/usr/bin/env bash\n")
    assert "\nset -euo pipefail\n" in script
    assert script.endswith("\nexec make test\n")


def test_a_release_of_what_is_not_committed_is_refused_before_anything_is_built(tmp_path: Path) -> None:
    path, project = machine(tmp_path / "path", "c++", "git", "getconf"), tmp_path / "project"
    (project / "tools").mkdir(parents=True)
    for name in ("Makefile", "tools/release.py"):
        shutil.copy(ROOT / name, project / name)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(project)]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "all"]):
        subprocess.run([*git, *words], check=True)
    (project / "good.txt").touch()
    code, _, told = make(path, "release", folder=project)
    refusal = (
        "error: not committed, and so not in the release:\n?? good.txt\n\n"
        "hint: commit it, or stash it: `git stash --include-untracked`\n"
    )
    assert code == 2
    assert told.startswith(refusal)
    assert sorted(found.name for found in project.iterdir()) == [".git", "Makefile", "good.txt", "tools"]
    subprocess.run([*git, "stash", "--quiet", "--include-untracked"], check=True)
    assert make(path, "committed", folder=project) == (0, "", "")
