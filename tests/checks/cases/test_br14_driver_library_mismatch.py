"""NVML fails after an unattended driver upgrade (nvidia-container-toolkit issue 171)."""

from dataclasses import replace
from pathlib import Path

from envdoctor.model.profile import GpuWanted
from tests.factories import make_facts as facts
from tests.factories.examine_venv import commands_of, first, verdict_of
from tests.factories.make_driver import host_with, make_driver
from tests.factories.make_torch import make_torch
from tests.factories.make_venv import make_venv

TITLE = "the driver's kernel module is 570.124.06 and its libraries are 570.133.07: no change of the venv fixes that"


def test_br14_the_module_and_the_libraries_differ(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv", make_torch(tmp_path / "wheels", "2.10.0", "12.8"))
    driver = make_driver(tmp_path, version="570.124.06", library="570.133.07", init_code=18)
    host = host_with(driver, tmp_path / "home")
    verdict = verdict_of(venv.prefix, host)
    assert first(verdict, tmp_path) == ("ED702", TITLE)
    # Told by NVML's return code: pynvml's text is another one than nvidia-smi's.
    assert verdict.findings[0].evidence == (
        "NVML returns 18: nvmlInit: RM has detected an NVML/RM version mismatch.",
        "loaded module: 570.124.06 (/sys/module/nvidia/version, /proc/driver/nvidia/version)",
        "libraries: 570.133.07 (libnvidia-ml.so.1)",
    )
    assert commands_of(verdict.findings[0], tmp_path) == [
        "sudo rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia",
        "sudo modprobe -a nvidia nvidia_uvm",
    ]
    assert len(verdict.findings) == 1


def test_br14_no_profile_makes_it_propose_a_restore(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv", make_torch(tmp_path / "wheels", "2.10.0", "12.8"))
    driver = make_driver(tmp_path, version="570.124.06", library="570.133.07", init_code=18)
    profile = replace(
        facts.PROFILE,
        torch=replace(facts.PROFILE.torch, version="2.10.0"),
        python=replace(facts.PROFILE.python, versions=("3.11", "3.12", "3.13", "3.14")),
        gpu=GpuWanted(count=8),
    )
    verdict = verdict_of(venv.prefix, host_with(driver, tmp_path / "home"), profile=profile)
    assert first(verdict, tmp_path) == ("ED702", TITLE)
    assert [
        command for finding in verdict.findings for command in finding.remediation.commands if "restore" in command
    ] == []


def test_br14_in_a_container_the_image_is_at_fault(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv", make_torch(tmp_path / "wheels", "2.10.0", "12.8"))
    driver = make_driver(tmp_path, version="570.124.06", library="570.133.07", init_code=18)
    host = host_with(driver, tmp_path / "home")
    host.root.mkdir()
    (host.root / ".dockerenv").touch()
    (finding,) = verdict_of(venv.prefix, host).findings
    assert finding.evidence[-1] == "inside docker: the image must not contain libnvidia-ml of its own"
    assert finding.remediation.commands == ()


def test_br14_mended_by_a_reload(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv", make_torch(tmp_path / "wheels", "2.10.0", "12.8"))
    driver = make_driver(tmp_path, version="570.133.07")
    assert verdict_of(venv.prefix, host_with(driver, tmp_path / "home")).findings == ()
