"""No false alarm: stacks that real users install from the default index must give a clean verdict, or a true one.

Restores about 20 GB; every extension module's symbols are bound, with and without what an earlier check remembers. With
ENVDOCTOR_VERDICTS=FILE the reports are appended to it, the folders of the run left out.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import uv

from envdoctor.elf.fatbin import architectures
from envdoctor.probes.loading.gpu_code import GpuCode
from tests.factories.make_reading import read

pytestmark = pytest.mark.stack

ROOT = Path(__file__).resolve().parents[2]
CLEAN = {
    "numeric": ("numpy", "scipy", "pandas", "pyarrow"),
    "torch-2.10-cu128": ("torch==2.10.0", "transformers", "datasets", "accelerate"),
    "torch-2.11-cu130": ("torch==2.11.0",),
    "torch-2.14-cu130": ("torch==2.14.1", "torchvision"),
    "torch-2.6-cu124": ("torch==2.6.0",),
    "torch-newest": ("torch", "torchvision"),
    "jax-cuda13-beside-torch-newest": ("jax[cuda13]", "torch"),
    "jax-beside-torch": ("jax[cuda12]", "torch==2.10.0"),
}
# What a finding says of vLLM's stack, and code that fails exactly when it is an error. The two owners of cuda/bindings
# are installed in one command, so that chance decides whose bytes are there.
VLLM = {"ED203": "import cuda.core"}
TORCHAUDIO = ("torch==2.10.0", "torchvision", "torchaudio==2.11.0", "xformers")


# As the index resolves them on the day: what is told of a stack, by its code, and code that fails exactly where it is
# told. What is not named here may be a note at most.
_MAPPED = "import torch; maps = open('/proc/self/maps').read(); "
_OPENED = """
import ctypes, torch, onnxruntime
from pathlib import Path
try:
    ctypes.CDLL(str(Path(onnxruntime.__file__).parent / "capi/libonnxruntime_providers_cuda.so"))
except OSError as error:
    assert "libcuda.so.1" in str(error), error
"""
_DECODED = """
import torch
from torchcodec.decoders import AudioDecoder
try:
    AudioDecoder(b"")
except Exception as error:
    assert "Could not load libtorchcodec" not in str(error)
"""
_RUNTIME = """
import glob, sys
import cutlass.cute
for path in glob.glob(sys.prefix + "/lib/python3*/site-packages/tokenspeed_mla/objs/*.so"):
    cutlass.cute.runtime.load_module(path, enable_tvm_ffi=True)
"""
TOLD: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    # cuDNN looks for NVRTC in a folder that no wheel has; torch 2.6 and newer have opened it by then.
    "torch-2.4.1": (("torch==2.4.1",), {"ED303": _MAPPED + "assert 'libnvrtc.so' in maps"}),
    "torch-2.5.1": (("torch==2.5.1",), {"ED303": _MAPPED + "assert 'libnvrtc.so' in maps"}),
    # Chance decides whose cuDNN and NCCL are in the folders that both majors own (ED203).
    "jax-cuda12-beside-torch-newest": (
        ("jax[cuda12]", "torch"),
        {"ED302": _MAPPED + "assert 'nvidia/cusparse/lib/libcusparse.so' not in maps", "ED203": ""},
    ),
    "qwen-vl-utils-decord": (
        ("qwen-vl-utils[decord]", "torch", "torchvision"),
        {"ED104": "import decord, qwen_vl_utils"},
    ),
    "cupy-cuda12x-beside-torch-newest": (
        ("cupy-cuda12x", "torch"),
        {"ED306": "import torch, cupyx.scipy.signal", "ED307": "import torch, cupy_backends.cuda.libs.curand"},
    ),
    "onnxruntime-gpu-beside-torch-newest": (("onnxruntime-gpu", "torch"), {"ED307": _OPENED}),
    # onnxruntime-gpu 1.31.1 is built for CUDA 13, and requires none of its libraries.
    "tensorflow-onnxruntime": (
        ("tensorflow-cpu", "onnxruntime-gpu"),
        {"ED307": _OPENED.replace("ctypes, torch, onnxruntime", "ctypes, onnxruntime")},
    ),
    "torchcodec-newest": (("torchcodec", "torch"), {"ED307": _DECODED}),
    "xformers-newest": (
        ("xformers", "torch"),
        {
            "ED306": "import torch, ctypes, xformers, pathlib; "
            "ctypes.CDLL(str(pathlib.Path(xformers.__file__).parent / '_C.so'))"
        },
    ),
    "torchao-newest": (("torchao", "torch"), {"ED104": "import torch, torchao"}),
    "tokenspeed-mla-0.1.8": (("tokenspeed-mla==0.1.8", "torch", "numpy"), {"ED307": _RUNTIME}),
}


def _run(*command: str | Path, environ: dict[str, str], cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, env=environ, cwd=cwd)


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    left_out = ("PYTHONPATH", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "LD_PRELOAD")
    environ = {name: value for name, value in os.environ.items() if name not in left_out}
    environ |= {"UV_PYTHON_DOWNLOADS": "never", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    # The wheels are not fetched again for each test.
    cache = subprocess.run([uv.find_uv_bin(), "cache", "dir"], capture_output=True, text=True, check=True)
    return environ | {"UV_CACHE_DIR": cache.stdout.strip()}


def _make(prefix: Path, specs: tuple[str, ...], environ: dict[str, str]) -> None:
    base = os.environ.get("ENVDOCTOR_STACK_PYTHON") or Path(sys.base_prefix) / f"bin/python3.{sys.version_info.minor}"
    for command in (
        ("venv", "--python", base, prefix),
        ("pip", "install", "--python", prefix / "bin/python", *specs),
    ):
        done = _run(uv.find_uv_bin(), *command, environ=environ)
        assert done.returncode == 0, done.stderr


def _check(prefix: Path, environ: dict[str, str], *options: str) -> dict[str, Any]:
    done = _run(sys.executable, "-m", "envdoctor", "check", prefix, "--format", "json", *options, environ=environ)
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def _note_down(name: str, specs: tuple[str, ...], prefix: Path, environ: dict[str, str]) -> None:
    if file := os.environ.get("ENVDOCTOR_VERDICTS"):
        done = _run(sys.executable, "-m", "envdoctor", "check", prefix, environ=environ)
        text = done.stdout.replace(str(prefix), "/srv/venv").replace(environ["UV_CACHE_DIR"], "UV_CACHE")
        with Path(file).open("a") as stream:
            stream.write(f"##### {name}: uv pip install {' '.join(specs)}\n\n{text}\n")


@pytest.mark.parametrize("name", CLEAN)
def test_the_verdict_is_clean(tmp_path: Path, environ: dict[str, str], name: str) -> None:
    prefix = tmp_path / "venv"
    _make(prefix, CLEAN[name], environ)
    first = _check(prefix, environ)
    assert first["findings"] == []
    assert first["could_not_tell"] == []
    assert _check(prefix, environ)["findings"] == []
    assert _check(prefix, environ, "--deep")["findings"] == []
    _note_down(name, CLEAN[name], prefix, environ)


@pytest.mark.parametrize("name", TOLD)
def test_what_is_told_is_what_the_interpreter_meets(tmp_path: Path, environ: dict[str, str], name: str) -> None:
    specs, proofs = TOLD[name]
    prefix = tmp_path / "venv"
    _make(prefix, specs, environ)
    _note_down(name, specs, prefix, environ)
    found = {item["code"] for item in _check(prefix, environ)["findings"] if item["severity"] != "note"}
    assert found <= proofs.keys()
    for code, statement in proofs.items():
        if statement:
            done = _run(prefix / "bin/python", "-c", statement, environ=environ, cwd=tmp_path)
            assert (done.returncode != 0) == (code in found), done.stderr


def test_the_kernels_headers_tell_what_torch_lists(tmp_path: Path, environ: dict[str, str]) -> None:
    prefix = tmp_path / "venv"
    _make(prefix, ("--no-deps", "torch==2.10.0"), environ)
    listed = read(prefix).fact(GpuCode)
    assert listed.told_from.endswith("/libtorch_python.so")
    assert architectures(listed.told_from.replace("torch_python", "torch_cuda")) == listed.architectures


def test_every_error_about_vllm_is_true_and_its_command_mends(tmp_path: Path, environ: dict[str, str]) -> None:
    prefix = tmp_path / "venv"
    _make(prefix, ("vllm",), environ)
    _note_down("vllm", ("vllm",), prefix, environ)
    found = _check(prefix, environ)
    errors = {item["code"]: item for item in found["findings"] if item["severity"] == "error"}
    assert errors.keys() <= VLLM.keys()
    warned = {item["code"] for item in found["findings"] if item["severity"] == "warning"}
    assert warned <= {"ED203", "ED307"}
    decoded = _run(prefix / "bin/python", "-c", _DECODED, environ=environ, cwd=tmp_path)
    assert (decoded.returncode != 0) == ("ED307" in warned), decoded.stderr
    for code, statement in VLLM.items():
        done = _run(prefix / "bin/python", "-c", statement, environ=environ, cwd=tmp_path)
        assert (done.returncode != 0) == (code in errors), done.stderr
    path = f"{Path(uv.find_uv_bin()).parent}:{environ['PATH']}"
    for item in errors.values():
        for command in item["remediation"]["commands"]:
            done = _run("bash", "-ec", command, environ=environ | {"PATH": path}, cwd=tmp_path)
            assert done.returncode == 0, done.stderr
    assert [item for item in _check(prefix, environ)["findings"] if item["severity"] == "error"] == []
    for statement in VLLM.values():
        done = _run(prefix / "bin/python", "-c", statement, environ=environ, cwd=tmp_path)
        assert done.returncode == 0, done.stderr


def test_a_torchaudio_of_another_torch_is_told_and_the_command_mends(tmp_path: Path, environ: dict[str, str]) -> None:
    """What `uv pip install torch==2.10.0 torchaudio` resolves to: torchaudio 2.11 asks for no torch in its metadata."""
    prefix = tmp_path / "venv"
    _make(prefix, TORCHAUDIO, environ)
    _note_down("torchaudio", TORCHAUDIO, prefix, environ)
    done = _run(prefix / "bin/python", "-c", "import torchaudio", environ=environ, cwd=tmp_path)
    assert "Could not load this library" in done.stderr
    first, *rest = _check(prefix, environ)["findings"]
    assert (first["code"], [item["code"] for item in rest]) == ("ED408", ["ED306", "ED309"])
    (command,) = first["remediation"]["commands"]
    path = f"{Path(uv.find_uv_bin()).parent}:{environ['PATH']}"
    assert _run("bash", "-ec", command, environ=environ | {"PATH": path}, cwd=tmp_path).returncode == 0
    done = _run(prefix / "bin/python", "-c", "import torchaudio", environ=environ, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert _check(prefix, environ)["findings"] == []
