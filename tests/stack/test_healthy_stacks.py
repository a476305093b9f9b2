"""No false alarm: stacks that real users install from the default index, healthy, must give a clean verdict.

Restores about 8 GB; every extension module's symbols are bound, with and without what an earlier check remembers.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import uv

pytestmark = pytest.mark.stack

ROOT = Path(__file__).resolve().parents[2]
STACKS = {
    "numeric": ("numpy", "scipy", "pandas", "pyarrow"),
    "torch-2.11-cu130": ("torch==2.11.0",),
    "torch-2.14-cu130": ("torch==2.14.1", "torchvision"),
    "trainer": ("torch==2.10.0", "transformers", "datasets", "accelerate"),
}


def _run(*command: str | Path, environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, env=environ, cwd=ROOT)


def _check(prefix: Path, environ: dict[str, str]) -> dict[str, Any]:
    done = _run(sys.executable, "-m", "envdoctor", "check", prefix, "--format", "json", environ=environ)
    document: dict[str, Any] = json.loads(done.stdout)
    return document


@pytest.mark.parametrize("specs", STACKS.values(), ids=STACKS)
def test_the_verdict_is_clean(tmp_path: Path, specs: tuple[str, ...]) -> None:
    left_out = ("PYTHONPATH", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "LD_PRELOAD")
    environ = {name: value for name, value in os.environ.items() if name not in left_out}
    environ |= {"UV_PYTHON_DOWNLOADS": "never", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    # The wheels are not fetched anew for each test.
    environ["UV_CACHE_DIR"] = subprocess.run(
        [uv.find_uv_bin(), "cache", "dir"], capture_output=True, text=True, check=True
    ).stdout.strip()
    prefix = tmp_path / "venv"
    python = Path(sys.base_prefix) / f"bin/python3.{sys.version_info.minor}"
    for command in (
        ("venv", "--python", python, prefix),
        ("pip", "install", "--python", prefix / "bin/python", *specs),
    ):
        done = _run(uv.find_uv_bin(), *command, environ=environ)
        assert done.returncode == 0, done.stderr
    first = _check(prefix, environ)
    assert first["findings"] == []
    assert first["could_not_tell"] == []
    assert _check(prefix, environ)["findings"] == []
