"""Environments of every kind that people have, as `envdoctor check` meets them; whole reports compared."""

import subprocess
from pathlib import Path

import uv

from tests.factories.run_envdoctor import Outcome, environment, run_envdoctor

EMPTY = """\
envdoctor check  [TMP]/e   no profile   torch not installed

[✓] Interpreter         CPython [PYTHON], venv by uv [UV]
[–] Distributions       no distribution is installed
[–] torch build         torch is not installed
[–] Installed files     no RECORD lists any file
[–] Shared libraries    torch is not installed
[–] Compile cache       cold: no entries in any cache folder
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
