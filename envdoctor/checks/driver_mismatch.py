"""The driver's kernel module and its user-space libraries are of two versions.

What it finds:
    NVML's return code 18 (library/module version mismatch); where NVML was not asked, different versions of the loaded
    module and of the library files.

Why it matters:
    After an unattended upgrade of the driver packages the old module stays loaded until a reboot: nvidia-smi and NVML
    fail, CUDA may or may not start. Nothing in the venv is at fault, and nothing done to it helps.

Example:
    Module 570.124.06 is loaded, libnvidia-ml.so.570.133.07 is on disk.

Fix:
    Reboot the node, or unload and reload the modules; hold the driver packages. A container must not bring driver
    libraries of its own.
"""

from collections.abc import Iterator

from envdoctor.analysis.context import CheckContext
from envdoctor.model.finding import Finding, Remediation
from envdoctor.probes.machine.gpu import Gpu
from envdoctor.probes.machine.platform import Platform

CODE = "ED702"
NAME = "driver-library-mismatch"
AREA = "Driver / GPU"
_MISMATCH = 18


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding on a mismatch."""
    gpu = case.facts[Gpu]
    versions = {version for version in (gpu.module_version, gpu.library_version) if version}
    by_files = gpu.state == "driver only" and len(versions) == 2
    if gpu.nvml_code != _MISMATCH and not by_files:
        return
    platform = case.facts.get(Platform)
    container = platform.container if platform else ""
    module, library = gpu.module_version or "unknown", gpu.library_version or "unknown"
    yield Finding(
        code=CODE,
        name=NAME,
        severity="error",
        confidence="high" if gpu.nvml_code == _MISMATCH else "medium",
        title=f"the driver's kernel module is {module} and its libraries are {library}: no change of the venv fixes "
        "that",
        subject="driver",
        evidence=(
            f"NVML returns {gpu.nvml_code}: {gpu.reason}" if gpu.nvml_code else "NVML was not queried; read from files",
            f"loaded module: {module} (/sys/module/nvidia/version, /proc/driver/nvidia/version)",
            f"libraries: {library} (libnvidia-ml.so.1)",
            *((f"inside {container}: the image must not contain libnvidia-ml of its own",) if container else ()),
        ),
        remediation=Remediation(
            text="Reboot the node, or stop all GPU processes and reload the modules; then hold the driver packages "
            "back from unattended upgrades"
            + (". In a container: remove the image's own driver libraries and restart it" if container else ""),
            commands=()
            if container
            else (
                "sudo rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia",
                "sudo modprobe -a nvidia nvidia_uvm",
            ),
        ),
        causes=("driver",),
    )
