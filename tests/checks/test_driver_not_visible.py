"""ED707: no driver in sight where one is counted on."""

from dataclasses import replace

import pytest

from envdoctor.analysis.context import DoesNotApplyError
from envdoctor.checks import driver_not_visible
from envdoctor.probes.loading.torch_build import TorchBuild
from envdoctor.probes.machine.platform import Platform
from tests.factories import make_facts as facts

CPU = replace(facts.TORCH, version="2.10.0+cpu", cuda="")
DOCKER = Platform(kernel="6.8", container="docker", wsl=False)
BARE = replace(DOCKER, container="")
ON_THE_BUS = replace(facts.GPU, pci=tuple(f"0000:{at}8:00.0" for at in range(1, 7)))
BUS = "the PCI bus lists 6 NVIDIA GPUs: 0000:18:00.0, 0000:28:00.0, 0000:38:00.0, 0000:48:00.0 and 2 more"


@pytest.mark.parametrize(
    ("sections", "severity", "title", "seen", "remedy"),
    [
        (
            (ON_THE_BUS, DOCKER),
            "warning",
            "no NVIDIA driver is visible in this docker container: torch 2.10.0+cu128 would run on the CPU",
            BUS,
            "Start the docker container with GPUs: GPUs need `--gpus all`. Nothing in the venv is broken",
        ),
        (
            (ON_THE_BUS, BARE),
            "warning",
            "no NVIDIA driver is visible on this machine: torch 2.10.0+cu128 would run on the CPU",
            BUS,
            "Load the driver on the host (`sudo modprobe nvidia`), or install it. Nothing in the venv is broken",
        ),
        (
            (facts.variables(NVIDIA_VISIBLE_DEVICES="all"), DOCKER),
            "note",
            "no NVIDIA driver is visible in this docker container: torch 2.10.0+cu128 would run on the CPU",
            "NVIDIA_VISIBLE_DEVICES=all asks for GPUs",
            "Start the docker container with GPUs: GPUs need `--gpus all`. Nothing in the venv is broken",
        ),
    ],
)
def test_finds_ed707_a_driver_that_something_counts_on(
    sections: tuple[object, ...], severity: str, title: str, seen: str, remedy: str
) -> None:
    (finding,) = driver_not_visible.run(facts.case(*sections))
    assert (finding.severity, finding.title) == (severity, title)
    assert finding.evidence == (seen, "no NVIDIA kernel module, device file or driver library")
    assert finding.remediation.text == remedy


@pytest.mark.parametrize(
    "sections",
    [
        (BARE,),
        (DOCKER,),
        (facts.variables(NVIDIA_VISIBLE_DEVICES="void"), DOCKER),
        (replace(ON_THE_BUS, state="present", module_version="570.1"), BARE),
    ],
    ids=["build-node", "container", "none-asked-for", "driver"],
)
def test_passes_ed707(sections: tuple[object, ...]) -> None:
    assert list(driver_not_visible.run(facts.case(*sections))) == []


@pytest.mark.parametrize("build", [CPU, replace(CPU, hip="6.3"), replace(CPU, xpu="20250302")])
def test_ed707_does_not_apply_to_another_build(build: TorchBuild) -> None:
    with pytest.raises(DoesNotApplyError, match="^torch is not a CUDA build$"):
        list(driver_not_visible.run(facts.case(ON_THE_BUS, build)))
