"""Environments of every kind that people have, as `envdoctor check` meets them; whole reports compared."""

import subprocess
from pathlib import Path

import pytest
import uv

from tests.factories.run_envdoctor import COMMAND, Outcome, environment, run_envdoctor

EMPTY = """\
envdoctor check  [TMP]/e   no profile   torch not installed

[✓] Interpreter         CPython [PYTHON], venv by uv [UV]
[–] Distributions       no distribution is installed
[–] torch build         torch is not installed
[–] Installed files     no RECORD lists any file
[–] Shared libraries    torch is not installed
[–] Compile cache       cold: no compiled graph or kernel
[✓] Environment         no LD_LIBRARY_PATH, LD_PRELOAD or PYTHONPATH
[–] Driver / GPU        no NVIDIA kernel module, device file or driver library
[–] Sources             no profile was given

Nothing found; no packages here: only the interpreter was checked.   exit 0
"""


def make(*command: str | Path, folder: Path) -> None:
    """Run one command of a maker of venvs in `folder`."""
    subprocess.run([*map(str, command)], cwd=folder, env=environment(folder), check=True, capture_output=True)


def test_an_empty_venv_is_not_called_well(tmp_path: Path) -> None:
    make(uv.find_uv_bin(), "venv", "-q", "e", folder=tmp_path)
    assert run_envdoctor("check", "e", folder=tmp_path) == Outcome(code=0, out=EMPTY, err="")


def test_ci_can_require_torch(tmp_path: Path) -> None:
    make(uv.find_uv_bin(), "venv", "-q", "e", folder=tmp_path)
    assert run_envdoctor("check", "e", "--require", "torch>=2.8", "-q", folder=tmp_path) == Outcome(
        code=1,
        out="error[ED413]: torch is required and not installed\n\n"
        "Found 1 error (1 cause); no packages here: only the interpreter was checked.   exit 1\n",
        err="",
    )


def test_the_heading_says_why_a_venv_was_taken(tmp_path: Path) -> None:
    make(uv.find_uv_bin(), "venv", "-q", "proj/.venv", folder=tmp_path)
    (tmp_path / "proj/sub/deep").mkdir(parents=True)
    home = {"HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path / "tmp")}

    def heading(*arguments: str, cwd: str = ".", **extra: str) -> str:
        outcome = run_envdoctor("check", *arguments, folder=tmp_path / cwd, extra={**home, **extra})
        return outcome.out.splitlines()[0].replace(str(tmp_path), "[TMP]") if outcome.out else outcome.err

    end = "   no profile   torch not installed"
    assert heading("proj") == f"envdoctor check  [TMP]/proj/.venv (the .venv of that project){end}"
    assert heading(cwd="proj/sub/deep") == (f"envdoctor check  [TMP]/proj/.venv (found above [TMP]){end}")
    assert heading(VIRTUAL_ENV=str(tmp_path / "proj/.venv")) == (
        f"envdoctor check  [TMP]/proj/.venv (from $VIRTUAL_ENV){end}"
    )
    assert heading(CONDA_PREFIX=str(tmp_path / "proj/.venv")) == (
        f"envdoctor check  [TMP]/proj/.venv (from $CONDA_PREFIX){end}"
    )
    assert heading("proj/.venv") == f"envdoctor check  [TMP]/proj/.venv{end}"


@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_another_system_is_refused_in_one_clear_word(tmp_path: Path, system: str) -> None:
    start = COMMAND[-1].replace("import sys;", f"import sys; sys.platform = {system!r};", 1)
    done = subprocess.run(
        [*COMMAND[:-1], start, "check"],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (
        2,
        "",
        f"error: envdoctor runs on Linux only, and this is {system}\n\n"
        "hint: run it where the environment is: in WSL, in a Linux container, or on the Linux machine that trains\n",
    )
