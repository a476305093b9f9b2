"""A CUDA build of torch, GPUs that are there or asked for, and no driver in sight.

What it finds:
    A CUDA build where no NVIDIA driver is visible although the PCI bus lists NVIDIA's GPUs (a warning), or although
    NVIDIA_VISIBLE_DEVICES asks for some (a note: images for CUDA set it whatever they run on). Without either the area
    line alone says that there is no driver: a build node has none.

Why it matters:
    `torch.cuda.is_available()` is False, without an error: a job that does not insist on a GPU runs on the CPU, some
    hundred times slower.

Example:
    A container started without `--gpus all` on a node of eight H200.

Fix:
    Start the container with its engine's GPU option; on the host itself load or install the driver.
"""

from collections.abc import Iterator

from envdoctor.analysis.context import CheckContext, DoesNotApplyError
from envdoctor.model.finding import Confidence, Finding, Remediation, Severity
from envdoctor.model.wording import counted
from envdoctor.probes.loading.torch_build import TorchBuild
from envdoctor.probes.machine.environment import Environment
from envdoctor.probes.machine.gpu import Gpu
from envdoctor.probes.machine.platform import Platform

CODE = "ED707"
NAME = "driver-not-visible"
AREA = "Driver / GPU"
_VARIABLE = "NVIDIA_VISIBLE_DEVICES"
# What the container toolkit takes for "no GPU" (its environment variables' documentation).
_NONE = frozenset({"", "void", "none"})


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding where a driver is missing that something else says is meant to be there."""
    build, gpu = case.facts[TorchBuild], case.facts[Gpu]
    if not build.cuda:
        raise DoesNotApplyError("torch is not a CUDA build")
    if gpu.state != "absent" or gpu.module_version:
        return
    asked = case.facts[Environment].value(_VARIABLE) or ""
    if gpu.pci:
        shown = ", ".join(gpu.pci[:4]) + (f" and {len(gpu.pci) - 4} more" if len(gpu.pci) > 4 else "")
        seen = f"the PCI bus lists {counted(len(gpu.pci), 'NVIDIA GPU')}: {shown}"
        yield _finding(case, build, "warning", "high", seen)
    elif asked not in _NONE:
        yield _finding(case, build, "note", "medium", f"{_VARIABLE}={asked} asks for GPUs")


def _finding(case: CheckContext, build: TorchBuild, severity: Severity, confidence: Confidence, seen: str) -> Finding:
    platform = case.facts[Platform]
    where = f"in this {platform.container_name}" if platform.container else "on this machine"
    return Finding(
        code=CODE,
        name=NAME,
        severity=severity,
        confidence=confidence,
        title=f"no NVIDIA driver is visible {where}: torch {build.version} would run on the CPU",
        subject="driver",
        evidence=(seen, case.facts[Gpu].reason),
        remediation=Remediation(
            text=f"Start the {platform.container_name} with GPUs: {platform.gpu_option}. Nothing in the venv is broken"
            if platform.container
            else "Load the driver on the host (`sudo modprobe nvidia`), or install it. Nothing in the venv is broken"
        ),
    )
