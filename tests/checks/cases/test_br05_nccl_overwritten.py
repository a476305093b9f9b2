"""cu12's NCCL overwrote cu13's: undefined symbol: ncclCommResume (pytorch issue 186591)."""

from pathlib import Path

import pytest

from tests.factories.examine_venv import by_hand, commands_of, mend, outline, verdict_of
from tests.factories.make_cuda import host_without_cache, make_library, make_linked_torch, real_error
from tests.factories.make_venv import install, make_venv

LIBRARY = "nvidia/nccl/lib/libnccl.so.2"


@pytest.mark.parametrize("hands", [False, True], ids=["on a copy", "by hand"])
def test_br05_two_steps_in_one_plan(tmp_path: Path, *, hands: bool) -> None:
    wheels = tmp_path / "wheels"
    cu13 = make_library(
        wheels, "nvidia-nccl-cu13", "2.29.7", LIBRARY, exports=["ncclCommInitRank", "ncclCommResume"]
    )  # fmt: skip
    cu12 = make_library(wheels, "nvidia-nccl-cu12", "2.29.3", LIBRARY, exports=["ncclCommInitRank"])
    needs = {"libnccl.so.2": ("ncclCommInitRank", "ncclCommResume")}
    torch = make_linked_torch(wheels, "2.13.0", "13.0", needs=needs, requires=["nvidia-nccl-cu13==2.29.7"])
    venv = make_venv(tmp_path / "venv", torch, cu13)
    host = host_without_cache(tmp_path / "home")
    assert verdict_of(venv.prefix, host).findings == ()

    install(venv, cu12)
    error = f"{venv.site_packages}/torch/lib/libtorch_cuda.so: undefined symbol: ncclCommResume"
    assert real_error(venv, "import torch", host) == f"ImportError: {error}"
    verdict = verdict_of(venv.prefix, host)
    assert outline(verdict, tmp_path) == [
        "error ED203 1 file of nvidia-nccl-cu13 holds the bytes of nvidia-nccl-cu12",
        "  error ED302 libnccl.so.2 is served by CUDA 12; torch 2.13.0 is a CUDA 13.0 build",
        f"  error ED305 `import torch` fails: {error}".replace(str(tmp_path), "[TMP]"),
    ]
    symbol = verdict.findings[2]
    assert symbol.evidence == (
        "torch/lib/libtorch_cuda.so asks for it (torch)",
        f"{LIBRARY} lacks it: found via RPATH, of nvidia-nccl-cu12 2.29.3",
        "no other file of this environment has it",
    )
    # Uninstalling alone would take the shared file away; the repair does both on a copy.
    assert commands_of(verdict.findings[0], tmp_path) == ["envdoctor repair --venv [TMP]/venv"]
    assert by_hand(verdict.findings[0], tmp_path) == [
        "uv pip uninstall --python [TMP]/venv/bin/python nvidia-nccl-cu12",
        "uv pip install --python [TMP]/venv/bin/python --no-deps --reinstall-package nvidia-nccl-cu13 "
        "nvidia-nccl-cu13==2.29.7",
    ]

    mend(verdict.findings[0], wheels=wheels, cache=tmp_path / ".uv-cache", hands=hands)
    assert real_error(venv, "import torch", host) == ""
    assert verdict_of(venv.prefix, host).findings == ()


def test_br05_an_old_version_is_replaced_by_the_one_torch_pins(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    old = make_library(wheels, "nvidia-nccl-cu13", "2.27.5", LIBRARY, exports=["ncclCommInitRank"])
    make_library(wheels, "nvidia-nccl-cu13", "2.29.7", LIBRARY, exports=["ncclCommInitRank", "ncclCommResume"])
    needs = {"libnccl.so.2": ("ncclCommInitRank", "ncclCommResume")}
    torch = make_linked_torch(wheels, "2.13.0", "13.0", needs=needs, requires=["nvidia-nccl-cu13==2.29.7"])
    venv = make_venv(tmp_path / "venv", torch, old)
    host = host_without_cache(tmp_path / "home")
    verdict = verdict_of(venv.prefix, host)
    assert outline(verdict, Path("/nowhere")) == [
        "warning ED406 torch 2.13.0 requires nvidia-nccl-cu13==2.29.7, and 2.27.5 is installed",
        f"  error ED305 `import torch` fails: {venv.site_packages}/torch/lib/libtorch_cuda.so: undefined symbol: "
        "ncclCommResume",
    ]
    mend(verdict.findings[1], wheels=wheels, cache=tmp_path / ".uv-cache")
    assert real_error(venv, "import torch", host) == ""
    assert verdict_of(venv.prefix, host).findings == ()
