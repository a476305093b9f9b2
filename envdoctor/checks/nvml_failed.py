"""NVML gives an error although a driver is there.

What it finds:
    NVML's failure with its own return code, when the kernel module is loaded or a driver library is installed and the
    code is not the version mismatch, which has a check of its own.

Why it matters:
    The number of GPUs and the driver's CUDA version cannot be determined, and the training job may fail in the same
    way.

Example:
    In a container, "Unknown Error" (999) after the host's systemd reloaded: the container lost its device cgroup.

Fix:
    Depends on where: start the container with the GPUs, or restart it; look at dmesg on the host.
"""

from collections.abc import Iterator

from envdoctor.analysis.context import CheckContext
from envdoctor.model.finding import Finding, Remediation
from envdoctor.probes.machine.gpu import Gpu
from envdoctor.probes.machine.platform import Platform

CODE = "ED706"
NAME = "nvml-failed"
AREA = "Driver / GPU"
_MISMATCH, _TIMED_OUT = 18, -1
_UNKNOWN, _NO_PERMISSION, _NOT_LOADED, _NOT_FOUND, _LOST = 999, 4, 9, 12, 15


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for a failure."""
    gpu = case.facts[Gpu]
    if gpu.state != "failed" or gpu.nvml_code == _MISMATCH:
        return
    platform = case.facts.get(Platform)
    container = platform.container if platform else ""
    yield Finding(
        code=CODE,
        name=NAME,
        severity="warning",
        confidence="high",
        title=f"the driver cannot be asked: {gpu.reason}",
        subject="driver",
        evidence=(
            f"NVML return code {gpu.nvml_code}" if gpu.nvml_code > 0 else "no return code of NVML",
            f"kernel module {gpu.module_version or 'not loaded'}, library version {gpu.library_version or 'not known'}",
            *((f"inside {container}",) if container else ()),
            *(("inside WSL: the driver is Windows', and must be updated there",) if platform and platform.wsl else ()),
        ),
        remediation=Remediation(text=_advice(gpu, container)),
        symptom_of=("driver",),
    )


def _advice(gpu: Gpu, container: str) -> str:
    if container and gpu.nvml_code in (_UNKNOWN, _NO_PERMISSION):
        return "Restart the container: it lost access to the devices when the host reloaded its services (cgroups)"
    if container and gpu.nvml_code in (_NOT_LOADED, _NOT_FOUND):
        return "Start the container with the GPUs (`--gpus all`, or the runtime class of the cluster)"
    if gpu.nvml_code == _LOST:
        return "A GPU fell off the bus: drain the node; `dmesg` shows the Xid"
    if gpu.nvml_code == _TIMED_OUT:
        return "The driver is wedged, or the tool's own interpreter lacks nvidia-ml-py: compare with `nvidia-smi`"
    return "Compare with `nvidia-smi` and `dmesg` on the host; nothing in the venv is at fault"
