"""The driver: a real libnvidia-ml.so.1 made with gcc, asked by the real child through the real pynvml."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from envdoctor.facts.context import Options
from envdoctor.probes.machine import gpu as gpu_probe
from envdoctor.probes.machine.driver_libraries import locate
from envdoctor.probes.machine.gpu import Device, Gpu
from tests.factories.make_driver import FakeGpu, host_with, make_driver
from tests.factories.make_reading import bare_host, read
from tests.factories.make_venv import Venv, make_venv

TWO = (
    FakeGpu(uuid="GPU-aaaa"),
    FakeGpu(uuid="GPU-bbbb", name="NVIDIA H100", mig=("MIG-1111", "MIG-2222")),
)


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Venv:
    return make_venv(tmp_path_factory.mktemp("venv") / "venv")


def _gpu(venv: Venv, host: object, *, ask: bool = True) -> Gpu:
    return read(venv.prefix, host, Options(ask_nvml=ask)).fact(Gpu)  # type: ignore[arg-type]


def test_the_devices_are_nvmls_and_the_variable_does_not_hide_them(venv: Venv, tmp_path: Path) -> None:
    driver = make_driver(tmp_path, version="580.159.04", cuda=13000, gpus=TWO)
    found = _gpu(venv, host_with(driver, tmp_path / "home", CUDA_VISIBLE_DEVICES=""))
    assert (found.state, found.reason, found.nvml_code) == ("present", "", 0)
    assert (found.driver_version, found.library_version, found.cuda_version) == ("580.159.04", "580.159.04", "13.0")
    assert found.devices == (
        Device(
            index=0,
            name="NVIDIA H200",
            uuid="GPU-aaaa",
            memory_bytes=143771 << 20,
            compute_capability="9.0",
            mig=False,
        ),
        Device(
            index=1,
            name="NVIDIA H100",
            uuid="GPU-bbbb",
            memory_bytes=143771 << 20,
            compute_capability="9.0",
            mig=True,
            mig_uuids=("MIG-1111", "MIG-2222"),
        ),
    )


def test_without_asking_the_files_still_tell_the_versions(venv: Venv, tmp_path: Path) -> None:
    driver = make_driver(tmp_path, version="570.124.06", library="570.133.07", gpus=TWO)
    found = _gpu(venv, host_with(driver, tmp_path / "home"), ask=False)
    assert (found.state, found.reason) == ("driver only", "NVML was not asked")
    assert (found.module_version, found.library_version) == ("570.124.06", "570.133.07")


@pytest.mark.parametrize(
    ("code", "loaded", "state"),
    [(18, True, "failed"), (999, True, "failed"), (9, True, "failed"), (9, False, "absent"), (12, False, "absent")],
)
def test_an_error_is_told_by_its_code(venv: Venv, tmp_path: Path, code: int, loaded: bool, state: str) -> None:  # noqa: FBT001
    driver = make_driver(tmp_path, init_code=code, loaded=loaded)
    found = _gpu(venv, host_with(driver, tmp_path / "home"))
    assert (found.state, found.nvml_code, found.devices) == (state, code, ())


def test_a_machine_without_anything_is_not_asked(venv: Venv, tmp_path: Path) -> None:
    host = replace(
        bare_host(tmp_path / "home"), proc=tmp_path / "no", ld_so_cache=tmp_path / "no-cache", library_dirs=()
    )
    found = _gpu(venv, host)
    assert (found.state, found.reason) == ("absent", "no NVIDIA kernel module, device file or driver library")


def test_gpus_on_the_pci_bus_are_listed_where_no_driver_is_visible(venv: Venv, tmp_path: Path) -> None:
    rows = (("0000:18:00.0", "10de", "030200"), ("0000:19:00.0", "10de", "040300"), ("0000:03:00.0", "1002", "030000"))
    for address, vendor, kind in rows:
        at = tmp_path / "sys/bus/pci/devices" / address
        at.mkdir(parents=True)
        (at / "vendor").write_text(f"0x{vendor}\n")
        (at / "class").write_text(f"0x{kind}\n")
    host = replace(
        bare_host(tmp_path / "home"),
        proc=tmp_path / "no",
        sys=tmp_path / "sys",
        ld_so_cache=tmp_path / "no-cache",
        library_dirs=(),
    )
    assert _gpu(venv, host).pci == ("0000:18:00.0",)


def test_a_driver_that_never_answers_is_given_up(venv: Venv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = make_driver(tmp_path)
    source = tmp_path / "hang.c"
    source.write_text("#include <unistd.h>\nint nvmlInitWithFlags(unsigned f) { sleep(60); return 0; }\n")
    library = driver.libraries / "libnvidia-ml.so.570.86.10"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    monkeypatch.setattr(gpu_probe, "NVML_TIMEOUT_SECONDS", 1.5)
    found = _gpu(venv, host_with(driver, tmp_path / "home"))
    assert (found.state, found.reason, found.nvml_code) == ("failed", "NVML did not answer within 1.5 s", -1)


def test_a_library_that_crashes_takes_only_the_child_along(venv: Venv, tmp_path: Path) -> None:
    driver = make_driver(tmp_path)
    source = tmp_path / "crash.c"
    source.write_text("#include <stdlib.h>\nint nvmlInitWithFlags(unsigned f) { abort(); }\n")
    library = driver.libraries / "libnvidia-ml.so.570.86.10"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    found = _gpu(venv, host_with(driver, tmp_path / "home"))
    assert (found.state, found.nvml_code) == ("failed", -1)
    assert found.reason.startswith("the NVML child ended with -6")


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.124.06  Wed Feb 26\n", "570.124.06"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (x)\n", "580.159.04"),
        ("nonsense", ""),
    ],
)
def test_the_modules_version_in_either_wording(venv: Venv, tmp_path: Path, text: str, version: str) -> None:
    driver = make_driver(tmp_path, loaded=False, init_code=12)
    (driver.proc / "driver/nvidia/version").write_text(text)
    assert _gpu(venv, host_with(driver, tmp_path / "home")).module_version == version


def test_the_driver_library_is_the_one_a_process_would_load(tmp_path: Path) -> None:
    compat, system = tmp_path / "cuda/compat", tmp_path / "lib"
    for folder, version in ((compat, "570.86.10"), (system, "580.65.06")):
        folder.mkdir(parents=True)
        (folder / f"libcuda.so.{version}").touch()
        (folder / "libcuda.so.1").symlink_to(f"libcuda.so.{version}")
    host = replace(bare_host(tmp_path / "home"), ld_so_cache=tmp_path / "none", library_dirs=(str(system),))
    assert locate(host, "libcuda.so.1") == (f"{system}/libcuda.so.1", "580.65.06")
    leaked = replace(host, environ={"LD_LIBRARY_PATH": f"/gone:{compat}"})
    assert locate(leaked, "libcuda.so.1") == (f"{compat}/libcuda.so.1", "570.86.10")
    assert locate(host, "libnvidia-ml.so.1") == ("", "")
    (system / "libcuda.so.1").unlink()
    (system / "libcuda.so.1").touch()  # WSL ships the name alone
    (system / "libcuda.so.580.65.06").unlink()
    assert locate(host, "libcuda.so.1") == (f"{system}/libcuda.so.1", "")
