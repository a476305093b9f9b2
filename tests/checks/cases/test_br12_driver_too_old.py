"""`pip install torch` brought a CUDA 13 build; driver 570 supports 12.8 (modelscope/FunASR issue 2973)."""

from pathlib import Path

import pytest

from tests.factories.examine_venv import commands_of, first, mend, verdict_of
from tests.factories.make_driver import FakeGpu, host_with, make_driver
from tests.factories.make_torch import make_torch
from tests.factories.make_venv import install, make_venv, uninstall
from tests.factories.make_wheel import make_wheel

EIGHT = tuple(FakeGpu(uuid=f"GPU-{at}") for at in range(8))


def test_br12_the_build_is_too_new_for_the_driver(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    # The distribution on the default index is called 2.11.0; only its version.py tells that it is a CUDA 13 build.
    torch = make_torch(wheels, "2.11.0", "13.0", stated="2.11.0+cu130")
    cudnn = make_wheel(wheels, "nvidia-cudnn-cu13", "9.19.0.56", files={"nvidia/cudnn/lib/libcudnn.so.9": b"13"})
    venv = make_venv(tmp_path / "venv", torch, cudnn)
    host = host_with(make_driver(tmp_path, gpus=EIGHT), tmp_path / "home")

    verdict = verdict_of(venv.prefix, host)
    assert first(verdict, tmp_path) == (
        "ED701",
        "driver 570.86.10 is too old for torch 2.11.0+cu130: CUDA 13 needs 580.65.06 or newer",
    )
    assert verdict.findings[0].evidence == (
        "kernel module 570.86.10, user-space library 570.86.10",
        "the driver supports CUDA up to 12.8",
    )
    # CUDA 13's libraries go first: uninstalled later they would delete the files they share with CUDA 12's.
    # They stay until uv has found the other build.
    build = "--python [TMP]/venv/bin/python --torch-backend auto --reinstall-package torch torch==2.11.0"
    assert commands_of(verdict.findings[0], tmp_path) == [
        f"uv pip install --dry-run {build} && "
        "uv pip uninstall --python [TMP]/venv/bin/python nvidia-cudnn-cu13 && "
        f"uv pip install {build}"
    ]
    (tmp_path / "nothing").mkdir()
    with pytest.raises(AssertionError, match="no solution found|No solution found|not found"):
        mend(verdict.findings[0], wheels=tmp_path / "nothing", cache=tmp_path / "empty-cache")
    assert (venv.site_packages / "nvidia/cudnn/lib/libcudnn.so.9").exists()

    # The command asks torch's own index; what it would bring is put in by hand.
    uninstall(venv, "nvidia-cudnn-cu13")
    install(venv, make_torch(wheels, "2.11.0+cu128", "12.8"))
    assert verdict_of(venv.prefix, host).findings == ()


@pytest.mark.parametrize("cuda", ["12.8", "12.9", "11.8"])
def test_br12_an_older_driver_of_the_same_major_is_no_fault(tmp_path: Path, cuda: str) -> None:
    venv = make_venv(tmp_path / "venv", make_torch(tmp_path / "wheels", "2.11.0", cuda))
    driver = make_driver(tmp_path, version="550.54.14", cuda=12040, gpus=EIGHT)
    assert verdict_of(venv.prefix, host_with(driver, tmp_path / "home")).findings == ()
