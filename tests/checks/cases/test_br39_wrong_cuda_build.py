"""Another index answered first, and the build has another local version (MeteoSwiss/evalml pull 165, uv issue 2775)."""

from pathlib import Path

import pytest

from tests.factories.make_stack import PYTHON, Stack, closed_environment
from tests.factories.make_torch import make_torch
from tests.factories.make_venv import make_venv


def _stack(root: Path) -> Stack:
    wheels = (make_torch(root / "wheels", "2.8.0+cu128", "12.8"),)
    stack = Stack(folder=root, wheels=wheels, environment=closed_environment(root))
    (root / "profiles").mkdir()
    (root / "profiles/small.toml").write_text(
        f'schema = 1\nname = "small"\nsummary = ""\n[python]\nversions = ["{PYTHON}"]\n'
        '[torch]\nversion = "2.8.0+cu128"\ncuda = "12.8"\n[lock]\nfile = "small.txt"\n'
    )
    stack.lock(*wheels)
    return stack


@pytest.mark.parametrize(
    ("installed", "cuda", "title"),
    [
        ("2.8.0+cu126", "12.6", "torch is 2.8.0+cu126; the profile wants 2.8.0+cu128"),
        # The default index's plain 2.11.0 is a CUDA 13 build: a pin without +cuXXX names no build.
        ("2.8.0", "13.0", "torch is 2.8.0; the profile wants 2.8.0+cu128"),
    ],
)
def test_br39_the_local_version_tells_the_build(tmp_path: Path, installed: str, cuda: str, title: str) -> None:
    stack = _stack(tmp_path)
    make_venv(stack.venv, make_torch(tmp_path / "other", installed, cuda))
    told = stack.run("check", "venv", "--profile", "small", "--quiet")
    assert told.code == 1
    assert told.out.splitlines()[0] == f"error[ED404]: {title}"
    assert stack.restore().code == 0
    assert stack.run("check", "venv", "--profile", "small").code == 0
