"""`restore --sources`: the profile's source files come back from git, and never over work that git does not have."""

import hashlib
import json
import subprocess
from pathlib import Path

import pytest

from tests.factories.make_stack import Stack, make_stack

GOOD = "print('the good version')\n"


def _git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=x", "-c", "user.email=x@x")
    return subprocess.run(
        ["git", *who, *arguments], cwd=folder, capture_output=True, text=True, check=True
    ).stdout.strip()


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    """Return a restored stack whose profile names two source files, of which git has two versions."""
    made = make_stack(tmp_path)
    (tmp_path / "src").mkdir()
    train, util = tmp_path / "train.py", tmp_path / "src" / "util.py"
    train.write_text(GOOD)
    util.write_text("x = 1\n")
    _git(tmp_path, "init", "-q")
    _git(tmp_path, "add", "train.py", "src")
    _git(tmp_path, "commit", "-qm", "good")
    hashes = {name: hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() for name in ("train.py", "src/util.py")}
    profile = tmp_path / "profiles" / "small.toml"
    lines = "".join(f'"{name}" = "{digest}"\n' for name, digest in hashes.items())
    profile.write_text(profile.read_text() + f"\n[sources]\n{lines}")
    train.write_text("print('a later version')\n")
    train.chmod(0o755)
    _git(tmp_path, "commit", "-qam", "later")
    assert made.restore().code == 0
    return made


def test_what_is_committed_comes_back_when_it_is_asked_for(stack: Stack) -> None:
    train = stack.folder / "train.py"
    assert stack.restore().code == 0
    assert "later" in train.read_text(), "not asked for"
    commit = _git(stack.folder, "rev-parse", "HEAD~1")[:12]
    (stack.folder / "src" / "util.py").unlink()
    planned = stack.restore("--sources", "--dry-run")
    lines = (
        f"  sources      src/util.py from commit {commit}, which is missing now\n{'':15}train.py from commit {commit}\n"
    )
    assert lines in planned.out
    assert "later" in train.read_text()
    answer = stack.restore("--sources")
    assert (answer.code, answer.out) == (
        0, "FOLDER/venv already holds small: 3 packages, 24 files (1 kB) verified by sha256\n"
        "2 source files put back from git\n",
    )  # fmt: skip
    assert lines in answer.err
    assert (train.read_text(), train.stat().st_mode & 0o777) == (GOOD, 0o755)
    assert (stack.folder / "src" / "util.py").read_text() == "x = 1\n"
    forced = stack.restore("--sources", "--force", "--json")
    assert (forced.code, json.loads(forced.out)["plan"]["sources"]) == (0, [])


@pytest.mark.parametrize("staged", [False, True], ids=["changed", "staged"])
def test_never_over_work_that_is_not_committed(stack: Stack, staged: bool) -> None:  # noqa: FBT001
    train = stack.folder / "train.py"
    train.write_text("print('hours of work')\n")
    if staged:
        _git(stack.folder, "add", "train.py")
    inode = stack.venv.stat().st_ino
    answer = stack.restore("--sources", "--force")
    assert (answer.code, answer.out, answer.err) == (
        4,
        "",
        "error: the source files cannot be restored from git: train.py holds work that is not committed\n\n"
        "hint: commit or stash the work, or fetch the branch that has it; `envdoctor check -p PROFILE` tells what "
        "differs\n",
    )
    assert train.read_text() == "print('hours of work')\n"
    assert stack.venv.stat().st_ino == inode


def test_never_over_a_file_that_git_does_not_know(stack: Stack) -> None:
    _git(stack.folder, "rm", "-q", "--cached", "train.py")
    _git(stack.folder, "commit", "-qm", "forgotten")
    (stack.folder / ".gitignore").write_text("train.py\n")
    answer = stack.restore("--sources")
    assert answer.code == 4
    assert "train.py holds work that is not committed" in answer.err
    assert "later" in (stack.folder / "train.py").read_text()


def test_what_no_commit_has_and_what_leads_out_is_refused(stack: Stack, tmp_path: Path) -> None:
    profile = stack.folder / "profiles" / "small.toml"
    text = profile.read_text()
    profile.write_text(text.replace(hashlib.sha256(GOOD.encode()).hexdigest(), "0" * 64))
    assert f"no commit has train.py with sha256 {'0' * 64}" in stack.restore("--sources").err
    profile.write_text(text)
    outside = tmp_path / "outside.py"
    outside.write_text("mine")
    (stack.folder / "train.py").unlink()
    (stack.folder / "train.py").symlink_to(outside)
    answer = stack.restore("--sources")
    assert (answer.code, "train.py is a link, or leads out of FOLDER" in answer.err) == (4, True)
    assert outside.read_text() == "mine"
