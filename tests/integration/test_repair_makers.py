"""Repairs of venvs that were not made by envdoctor: by each of the tools that people use."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import uv

from tests.factories.make_index import make_index
from tests.factories.make_stack import Stack, make_stack
from tests.factories.make_venv import Venv
from tests.factories.make_wheel import make_wheel
from tests.factories.makers import MAKERS, Workshop, install_tools, make_with

NCCL = "nvidia/nccl/lib/libnccl.so.2"
PINS = {"torch": "2.13.0+cpu", "some-tool": "1.2", "plain": "3.0", "nvidia-nccl-cu12": "2.1"}


@pytest.fixture(scope="session")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the tools' commands; skip where no index is in reach."""
    folder = tmp_path_factory.mktemp("tools")
    if reason := install_tools(folder):
        pytest.skip(f"the venv makers could not be installed: {reason}")
    return folder / "bin"


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    """Return wheels of a small stack in which two wheels own one library."""
    files = {NCCL: "12", "nvidia/nccl/__init__.py": ""}
    own = make_wheel(tmp_path / "wheels", "nvidia-nccl-cu12", "2.1", files=files)
    make_wheel(tmp_path / "wheels", "nvidia-nccl-cu13", "2.1", files={NCCL: "13", "nvidia/nccl/__init__.py": ""})
    return make_stack(tmp_path, own)


@pytest.fixture
def shop(stack: Stack, tools: Path) -> Iterator[Workshop]:
    """Return the tools, in an environment whose one source has the stack's wheels."""
    with make_index(stack.folder / "wheels") as index:
        environment = {name: value for name, value in stack.environment.items() if not name.startswith("PIP_")}
        environment |= {"PIP_CONFIG_FILE": "/dev/null", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PDM_CHECK_UPDATE": "0"}
        del environment["PYTHONPATH"]
        yield Workshop(bin=tools, environment=environment, index=index.url)


def _lose(venv: Venv, shop: Workshop) -> None:
    """Delete one file by hand."""
    (venv.site_packages / "some_tool.py").unlink()


def _incident(venv: Venv, shop: Workshop) -> None:
    """Install the wheel of the other CUDA major, and uninstall it: the shared file goes with it."""
    uv_pip = (uv.find_uv_bin(), "pip")
    source = ("--no-deps", "--default-index", shop.index)
    shop.run(*uv_pip, "install", "--python", venv.python, *source, "nvidia-nccl-cu13", cwd=venv.prefix.parent)
    shop.run(*uv_pip, "uninstall", "--python", venv.python, "nvidia-nccl-cu13", cwd=venv.prefix.parent)
    assert not (venv.site_packages / NCCL).exists()


@pytest.mark.parametrize("maker", MAKERS)
def test_a_repair_of_a_venv_made_by(maker: str, stack: Stack, shop: Workshop) -> None:
    venv = make_with(maker, shop, stack.folder, PINS)
    assert _verdict(stack) == (0, 0)
    for broken in (_lose, _incident):
        broken(venv, shop)
        assert _verdict(stack) == (1, 1)
        answer = stack.run("repair", "--venv", "venv", "--yes")
        assert answer.code == 0, answer.err
        assert _verdict(stack, "--deep") == (0, 0)
        assert _said(venv.prefix / "bin/hello") == "hello\n"
        assert _said(venv.python, "-c", "import torch, some_tool, plain; print(torch.__version__)") == "2.13.0+cpu\n"
        assert (venv.site_packages / NCCL).read_text() == "12"


def _verdict(stack: Stack, *options: str) -> tuple[int, int]:
    """Return the exit code and the number of errors."""
    answer = stack.run("check", "venv", "--json", *options)
    return answer.code, sum(finding["severity"] == "error" for finding in json.loads(answer.out)["findings"])


def _said(*command: str | Path) -> str:
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True).stdout
