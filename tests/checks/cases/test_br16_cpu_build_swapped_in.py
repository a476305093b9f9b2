"""A plain `uv run` swaps the CUDA torch for the CPU build of the same public version (astral-sh/uv issue 18478)."""

from pathlib import Path

from tests.factories.examine_venv import commands_of, first, verdict_of
from tests.factories.make_driver import FakeGpu, host_with, make_driver
from tests.factories.make_stack import PYTHON, Stack, closed_environment
from tests.factories.make_torch import make_torch
from tests.factories.make_venv import install, make_venv
from tests.factories.make_wheel import make_wheel


def _stack(root: Path) -> Stack:
    wheels = (make_torch(root / "wheels", "2.9.1+cu128", "12.8"), make_wheel(root / "wheels", "thinplate", "1.0"))
    stack = Stack(folder=root, wheels=wheels, environment=closed_environment(root))
    (root / "profiles").mkdir()
    (root / "profiles/small.toml").write_text(
        f'schema = 1\nname = "small"\nsummary = ""\n[python]\nversions = ["{PYTHON}"]\n'
        '[torch]\nversion = "2.9.1+cu128"\ncuda = "12.8"\n[lock]\nfile = "small.txt"\n'
    )
    stack.lock(*wheels)
    return stack


def test_br16_the_build_changed_and_the_public_version_did_not(tmp_path: Path) -> None:
    stack = _stack(tmp_path)
    venv = make_venv(stack.venv, *stack.wheels)
    # The index's plain 2.9.1 has no local part in its metadata either: only version.py tells that it is a CPU build.
    install(venv, make_torch(tmp_path / "other", "2.9.1", None))

    told = stack.run("check", "venv", "--profile", "small", "--quiet")
    assert told.code == 1
    assert told.out.splitlines()[0] == "error[ED404]: torch is 2.9.1; the profile wants 2.9.1+cu128"

    answer = stack.restore()
    assert answer.code == 0, answer.err
    assert stack.run("check", "venv", "--profile", "small").code == 0


def test_br16_without_a_profile_a_gpu_beside_a_cpu_build_is_worth_a_note(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv", make_torch(tmp_path / "wheels", "2.9.1+cpu", None))
    host = host_with(make_driver(tmp_path, gpus=(FakeGpu(uuid="GPU-1"),)), tmp_path / "home")
    verdict = verdict_of(venv.prefix, host)
    assert first(verdict, tmp_path) == ("ED411", "torch 2.9.1+cpu is a CPU build, on a machine with 1 GPU")
    assert commands_of(verdict.findings[0], tmp_path) == [
        "uv pip install --python [TMP]/venv/bin/python --torch-backend auto --reinstall-package torch torch==2.9.1"
    ]
    assert verdict.exit_code() == 0
    assert verdict_of(venv.prefix).findings == ()
