"""CUDA 12's torch under an inference wheel that was built for CUDA 13 (vllm issue 44335)."""

from pathlib import Path

from tests.factories.examine_venv import outline, verdict_of
from tests.factories.make_cuda import host_without_cache, make_library, make_linked_torch, object_bytes, real_error
from tests.factories.make_venv import install, make_venv, uninstall
from tests.factories.make_wheel import make_wheel

ERROR = "libcudart.so.13: cannot open shared object file: No such file or directory"
TITLE = "vllm 0.22.0 was built for CUDA 13; torch 2.11.0+cu129 is a CUDA 12.9 build"
TAG = "cp38-abi3-manylinux_2_31_x86_64"


def _vllm(wheels: Path, soname: str) -> Path:
    made = object_bytes("_C.abi3.so", stubs={soname: (), "libc10.so": ()}, runpath="$ORIGIN/../torch/lib")
    files = {"vllm/__init__.py": "", "vllm/_C.abi3.so": made}
    return make_wheel(wheels, "vllm", "0.22.0", files=files, requires=["torch==2.11.0"], tag=TAG)


def test_br08_the_wrong_build_and_no_missing_library(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    venv = make_venv(
        tmp_path / "venv",
        make_library(wheels, "nvidia-cuda-runtime-cu12", "12.9.79", "nvidia/cuda_runtime/lib/libcudart.so.12"),
        make_library(wheels, "nvidia-cuda-runtime", "13.3.29", "nvidia/cu13/lib/libcudart.so.13"),
        make_wheel(wheels, "flashinfer-python", "0.5.0", requires=["nvidia-cuda-runtime"]),
        make_linked_torch(wheels, "2.11.0+cu129", "12.9", needs={"libcudart.so.12": ()}),
        _vllm(wheels, "libcudart.so.13"),
    )
    host = host_without_cache(tmp_path / "home")
    assert real_error(venv, "import torch", host) == ""
    assert real_error(venv, "import torch, vllm._C", host) == f"ImportError: {ERROR}"

    verdict = verdict_of(venv.prefix, host)
    assert outline(verdict, tmp_path) == [f"error ED306 {TITLE}"]
    (finding,) = verdict.findings
    assert finding.evidence == (
        "vllm/_C.abi3.so needs libcudart.so.13 (DT_NEEDED)",
        f"after `import torch` it cannot be loaded: {ERROR}",
        "CUDA 13 is here as nvidia-cuda-runtime 13.3.29, required by flashinfer-python",
    )
    # The trap is LD_LIBRARY_PATH, which would shadow libraries of equal sonames.
    assert finding.remediation.commands == ()
    assert "Do not put CUDA 13's folder on LD_LIBRARY_PATH" in finding.remediation.text

    uninstall(venv, "vllm")
    install(venv, _vllm(tmp_path / "cu129", "libcudart.so.12"))
    assert "libcudart" not in real_error(venv, "import torch, vllm._C", host)
    assert verdict_of(venv.prefix, host).findings == ()


def test_br08_builds_for_several_majors_in_one_wheel_are_no_fault(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    builds = {
        f"bitsandbytes/libbitsandbytes_cuda{major}0.so": object_bytes("lib.so", stubs={f"libcudart.so.{major}": ()})
        for major in ("12", "13")
    }
    venv = make_venv(
        tmp_path / "venv",
        make_library(wheels, "nvidia-cuda-runtime-cu12", "12.9.79", "nvidia/cuda_runtime/lib/libcudart.so.12"),
        make_linked_torch(wheels, "2.11.0+cu129", "12.9", needs={"libcudart.so.12": ()}),
        make_wheel(wheels, "bitsandbytes", "0.49.0", files={"bitsandbytes/__init__.py": "", **builds}),
    )
    assert verdict_of(venv.prefix, host_without_cache(tmp_path / "home")).findings == ()
