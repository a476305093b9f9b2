"""The key of an environment, read from files: a venv with a torch of a few files, and a machine that is made up."""

import hashlib
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from envdoctor.cache.static_key import _devices, _threads, _visible, key_parts
from envdoctor.probes.loading.torch_build import TorchBuild
from envdoctor.probes.machine.gpu import Device, Gpu
from tests.factories.make_cache import write
from tests.factories.make_reading import bare_host, read
from tests.factories.make_venv import Venv, make_venv
from tests.factories.make_wheel import make_wheel

CONFIG = 'import os\nmax_autotune = os.environ.get("TORCHINDUCTOR_MAX_AUTOTUNE") == "1"\n'
H200 = Device(index=0, name="NVIDIA H200", uuid="GPU-aaaa", memory_bytes=1, compute_capability="9.0", mig=False)
H100 = replace(H200, index=1, name="NVIDIA H100", uuid="GPU-bbbb")


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Venv:
    folder = tmp_path_factory.mktemp("present")
    wheel = make_wheel(
        folder,
        "torch",
        "2.13.0+cpu",
        files={
            "torch/__init__.py": "",
            "torch/version.py": '__version__ = "2.13.0+cpu"\ncuda = None\nhip = None\ngit_version = "abc"\n',
            "torch/_inductor/config.py": CONFIG,
            "torch/_inductor/codecache.py": "# cpp_runtime_thread_count\n",
        },
    )
    return make_venv(folder / "venv", wheel)


def proc(tmp_path: Path) -> Path:
    folder = tmp_path / "proc"
    write(folder / "cpuinfo", b"model name\t: Intel Xeon 6\nflags\t\t: fpu sse4_2 avx2 fma avx512f amx_tile\n")
    write(folder / "self/status", b"Name:\tpython\nCpus_allowed_list:\t0-3,8,10-11\n")
    return folder


def test_every_part_of_a_cpu_build(tmp_path: Path, venv: Venv) -> None:
    host = bare_host(tmp_path / "home", TORCHINDUCTOR_MAX_AUTOTUNE="1", DISABLE_LLVM_OPT="1", UNRELATED="1")
    host = replace(host, proc=proc(tmp_path))
    parts = {part.name: part for part in key_parts(read(venv.prefix, host))}
    assert {name: part.value for name, part in parts.items() if part.known and name != "python.version"} == {
        "torch.version": "2.13.0+cpu",
        "triton.version": "",
        "triton.sources": "",
        "cuda.version": "",
        "gpu.name": "",
        "gpu.arch": "",
        "cpu.isa": "amx_tile avx512f avx2",
        "cpu.model": "Intel Xeon 6",
        "cpu.threads": "7",
        "venv.prefix": str(venv.prefix),
        "python.base": parts["python.base"].value,
        "cache.folder": f"{tmp_path}/home/tmp/torchinductor_me",
        "triton.folder": f"{tmp_path}/home/.triton/cache",
        "cpp.compiler": parts["cpp.compiler"].value,
        "env.TORCHINDUCTOR_MAX_AUTOTUNE": "1",
        "env.DISABLE_LLVM_OPT": "1",
    }
    assert parts["env.TORCHINDUCTOR_MAX_AUTOTUNE"].means == ("max_autotune",)
    assert Path(parts["python.base"].value, "bin").is_dir()
    gcc = Path(shutil.which("g++") or "").read_bytes()
    assert parts["cpp.compiler"].value == f"sha256 {hashlib.sha256(gcc).hexdigest()[:16]}"
    # This torch's key is not one that can be computed from files, and that is said.
    assert not parts["torch.sources"].known
    assert "are not the functions this version knows" in parts["torch.sources"].value


def test_threads_are_what_openmp_is_told(tmp_path: Path) -> None:
    host = replace(bare_host(tmp_path / "home"), proc=proc(tmp_path))
    assert _threads(host) == "7"
    assert _threads(replace(host, environ={"OMP_NUM_THREADS": "3"})) == "3"


def test_a_venv_without_torch_has_a_key_too(tmp_path: Path) -> None:
    parts = {part.name: part for part in key_parts(read(make_venv(tmp_path / "venv").prefix))}
    assert (parts["torch.version"].value, parts["torch.sources"].value) == ("", "")
    assert all(part.known for part in parts.values())


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        (None, ["NVIDIA H200", "NVIDIA H100"]),
        ("1", ["NVIDIA H100"]),
        ("1,0", ["NVIDIA H100", "NVIDIA H200"]),
        ("GPU-aa", ["NVIDIA H200"]),
        ("", []),
        ("-1", []),
        ("0,9,1", ["NVIDIA H200"]),
    ],
)
def test_the_devices_cuda_lets_through(wanted: str | None, names: list[str]) -> None:
    assert [device.name for device in _visible((H200, H100), wanted)] == names


def gpu(state: str, reason: str = "", devices: tuple[Device, ...] = ()) -> Gpu:
    return Gpu(
        state=state,  # type: ignore[arg-type]
        reason=reason,
        module_version="580.95.05",
        library_version="",
        libcuda="",
        libcuda_version="",
        cuda_version="13.0",
        nvml_code=0,
        devices=devices,
    )


@pytest.mark.parametrize(
    ("found", "name", "arch", "known"),
    [
        (gpu("present", devices=(H200, replace(H200, index=1))), "NVIDIA H200", "9.0", True),
        (gpu("present", devices=(H200, H100)), "NVIDIA H100, NVIDIA H200", "9.0", True),
        (gpu("absent", "no NVIDIA kernel module"), "", "", True),
        (
            gpu("failed", "NVML did not answer within 5 s"),
            "NVML did not answer within 5 s",
            "NVML did not answer within 5 s",
            False,
        ),
    ],
)
def test_a_cuda_build_hashes_the_card(
    tmp_path: Path, venv: Venv, found: Gpu, name: str, arch: str, *, known: bool
) -> None:
    reading = read(venv.prefix, bare_host(tmp_path / "home"))
    reading.read[Gpu] = found
    reading.read[TorchBuild] = replace(reading.fact(TorchBuild), cuda="13.0")
    parts = {part.name: part for part in _devices(reading)}
    assert (parts["gpu.name"].value, parts["gpu.arch"].value, parts["gpu.name"].known) == (name, arch, known)
    assert parts["driver.version"].value == "580.95.05"
