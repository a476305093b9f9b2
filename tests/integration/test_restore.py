"""Restoring a small stack with real uv: what is built, what is said, and that a failure changes nothing."""

import subprocess
from pathlib import Path

from tests.factories.make_stack import make_stack
from tests.factories.make_venv import Venv, install, tree_state, uninstall
from tests.factories.make_wheel import make_wheel


def _output(*command: str | Path) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_venv_that_does_not_exist_is_created(tmp_path: Path) -> None:
    stack = make_stack(tmp_path)
    answer = stack.restore()
    assert answer.code == 0, answer.err
    assert answer.out == "restored FOLDER/venv: 3 packages, 24 files (1 kB) verified by sha256\n"
    assert _output(stack.venv / "bin/python", "-c", "import torch; print(torch.__version__)") == "2.13.0+cpu\n"
    assert _output(stack.venv / "bin/hello") == "hello\n"


def test_a_contaminated_venv_is_replaced_and_kept(tmp_path: Path) -> None:
    owner = make_wheel(tmp_path / "wheels", "nvidia-nccl-cu12", "2.1", files={"nvidia/nccl/lib/libnccl.so.2": "12"})
    other = make_wheel(tmp_path / "other", "nvidia-nccl-cu13", "2.1", files={"nvidia/nccl/lib/libnccl.so.2": "13"})
    stack = make_stack(tmp_path, owner)
    assert stack.restore().code == 0
    venv = Venv(prefix=stack.venv)
    install(venv, other)
    uninstall(venv, "nvidia-nccl-cu13")
    lost = venv.site_packages / "nvidia/nccl/lib/libnccl.so.2"
    assert not lost.exists()
    before = tree_state(stack.venv)
    answer = stack.restore()
    assert answer.code == 0, answer.err
    kept = stack.store / "generations" / "0001"
    assert answer.out == (
        "restored FOLDER/venv: 4 packages, 31 files (2 kB) verified by sha256\n"
        "the old venv is kept at FOLDER/.envdoctor/venv/generations/0001; running processes go on with its files\n"
        "to go back: mv FOLDER/venv FOLDER/venv.new && mv FOLDER/.envdoctor/venv/generations/0001 FOLDER/venv\n"
    )
    assert tree_state(kept) == before
    assert lost.read_text() == "12"
