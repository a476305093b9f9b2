"""libcuda.so.1 by what it is: the toolkit's stub, or a driver of another version baked into the image."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from envdoctor.facts.host import Host
from tests.factories.examine_venv import commands_of, environment_after, outline, verdict_of
from tests.factories.make_driver import Driver, host_with, make_driver
from tests.factories.make_elf import make_shared
from tests.factories.make_torch import make_torch
from tests.factories.make_venv import make_venv

TITLE = "libcuda.so.1 is the CUDA toolkit's stub, which answers every call with error 34"
OLDER = "libcuda.so.1 570.86.10 in FOLDER shadows driver 580.95.05, which is newer"


def _libcuda(path: Path, code: int) -> Path:
    make_shared(path, soname="libcuda.so.1", source=f"int cuInit(unsigned flags) {{ return {code}; }}")
    link = path.with_name("libcuda.so.1")
    if link != path:
        link.symlink_to(path.name)
    return path


def _init(host: Host) -> int:
    """Return what cuInit answers in a process of that environment."""
    code = "import ctypes; print(ctypes.CDLL('libcuda.so.1').cuInit(0))"
    done = subprocess.run([sys.executable, "-c", code], env=dict(host.environ), capture_output=True, check=True)
    return int(done.stdout)


@pytest.fixture
def driver(tmp_path: Path) -> Driver:
    made = make_driver(tmp_path, version="580.95.05", cuda=13000)
    _libcuda(made.libraries / "libcuda.so.580.95.05", 0)
    return made


@pytest.mark.parametrize("name", ["toolkit/lib64/stubs/libcuda.so", "copied/libcuda.so.1"])
def test_n15_the_stub_is_told_by_its_content_and_the_command_heals(tmp_path: Path, driver: Driver, name: str) -> None:
    stub = _libcuda(tmp_path / name, 34)
    venv = make_venv(tmp_path / "venv", make_torch(tmp_path / "wheels", "2.9.0+cu128", "12.8"))
    healthy = host_with(driver, tmp_path / "home")
    path = f"{stub.parent}:{driver.libraries}"
    host = replace(healthy, environ={**healthy.environ, "LD_LIBRARY_PATH": path})
    assert _init(host) == 34
    verdict = verdict_of(venv.prefix, host)
    assert outline(verdict, tmp_path)[0] == f"error ED708 {TITLE}"
    finding = verdict.findings[0]
    assert finding.evidence == (
        f"{stub.with_name('libcuda.so.1')} is found through LD_LIBRARY_PATH",
        f"the driver's own is {driver.libraries}/libcuda.so.1",
    )
    after = environment_after(host, *finding.remediation.commands)
    assert commands_of(finding, tmp_path) == ["export LD_LIBRARY_PATH=[TMP]/driver"]
    assert _init(after) == 0
    assert [item.code for item in verdict_of(venv.prefix, after).findings] == []


def test_n15_a_driver_baked_into_the_image_is_older_than_the_loaded_one(tmp_path: Path, driver: Driver) -> None:
    baked = _libcuda(tmp_path / "image/lib/libcuda.so.570.86.10", 803)
    venv = make_venv(tmp_path / "venv", make_torch(tmp_path / "wheels", "2.9.0+cu128", "12.8"))
    healthy = host_with(driver, tmp_path / "home")
    path = f"{baked.parent}:{driver.libraries}"
    host = replace(healthy, environ={**healthy.environ, "LD_LIBRARY_PATH": path})
    assert _init(host) == 803
    verdict = verdict_of(venv.prefix, host)
    title = OLDER.replace("FOLDER", "[TMP]/image/lib")
    assert outline(verdict, tmp_path)[0] == f"error ED703 {title}"
    finding = verdict.findings[0]
    assert commands_of(finding, tmp_path) == ["export LD_LIBRARY_PATH=[TMP]/driver"]
    after = environment_after(host, *finding.remediation.commands)
    assert _init(after) == 0
    assert [item.code for item in verdict_of(venv.prefix, after).findings] == []


def test_n15_wsls_own_and_a_stub_without_a_driver_are_silent(tmp_path: Path, driver: Driver) -> None:
    venv = make_venv(tmp_path / "venv", make_torch(tmp_path / "wheels", "2.9.0+cu128", "12.8"))
    wsl = tmp_path / "wsl/libcuda.so.1.1"
    source = 'int cuInit(unsigned flags) { return 0; } const char *of(void) { return "libdxcore.so"; }'
    make_shared(wsl, soname="libcuda.so.1", source=source)
    wsl.with_name("libcuda.so.1").symlink_to(wsl.name)
    healthy = host_with(driver, tmp_path / "home")
    host = replace(healthy, environ={**healthy.environ, "LD_LIBRARY_PATH": f"{wsl.parent}:{driver.libraries}"})
    assert [item.code for item in verdict_of(venv.prefix, host).findings] == []
    # A build node has the stub and no driver: there is nothing that it hides.
    alone = _libcuda(tmp_path / "stubs/libcuda.so", 34)
    nothing = Driver(libraries=alone.parent, proc=tmp_path / "no-proc", sys=tmp_path / "no-sys")
    found = verdict_of(venv.prefix, host_with(nothing, tmp_path / "home")).findings
    assert [item.code for item in found if item.code in ("ED703", "ED708")] == []
