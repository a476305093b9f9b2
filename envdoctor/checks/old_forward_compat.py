"""A libcuda that is older than the loaded driver: forward compatibility the wrong way round, or a driver in an image.

What it finds:
    The libcuda.so.1 that a process would load is older than the loaded kernel module, wherever it lies: CUDA's
    forward-compatibility package, or a driver that somebody installed into the image.

Why it matters:
    The compatibility package lets a new CUDA run on an old driver. In front of a newer driver it is the wrong way
    round: initialization fails with error 803 ("unsupported display driver / cuda driver combination") or 804, also
    within one branch (measured on an H200: 580.95.05 in front of 580.159.04).

Example:
    An image puts /usr/local/cuda-12.8/compat (570.86) on LD_LIBRARY_PATH; the node's driver is 580.65.

Fix:
    Take the compat folder out of LD_LIBRARY_PATH or of ld.so.conf; the driver's own libcuda is then found.
"""

import shlex
from collections.abc import Iterator

from envdoctor.analysis.context import CheckContext
from envdoctor.model.finding import Finding, Remediation
from envdoctor.probes.machine.gpu import Gpu
from envdoctor.probes.machine.library_path import LibraryPath
from envdoctor.standards.need import meets

CODE = "ED703"
NAME = "old-forward-compat"
AREA = "Driver / GPU"
_MISMATCH = 18


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding when the compatibility library is the older one."""
    gpu = case.facts[Gpu]
    folder = gpu.libcuda.rpartition("/")[0]
    if not gpu.libcuda or not gpu.module_version or not gpu.libcuda_version:
        return
    if meets(gpu.libcuda_version, f">={gpu.module_version}"):
        return
    elements = [item.element for item in case.facts[LibraryPath].folders]
    by_variable = folder in [element.rstrip("/") for element in elements]
    compat = "/compat" in folder
    if gpu.nvml_code == _MISMATCH and not compat:
        return  # all of the driver's libraries are of another version: ED702 says so
    whose = "of the forward-compatibility package" if compat else f"in {folder}"
    kept = [element for element in elements if element and element.rstrip("/") != folder]
    yield Finding(
        code=CODE,
        name=NAME,
        severity="error",
        confidence="high",
        title=f"libcuda.so.1 {gpu.libcuda_version} {whose} shadows driver {gpu.module_version}, which is newer",
        subject="libcuda.so.1",
        evidence=(
            gpu.libcuda,
            f"found through {'LD_LIBRARY_PATH' if by_variable else 'the loader cache or ld.so.conf'}",
        ),
        remediation=Remediation(
            text=_advice(compat=compat, by_variable=by_variable),
            commands=()
            if not by_variable
            else (f"export LD_LIBRARY_PATH={shlex.quote(':'.join(kept))}" if kept else "unset LD_LIBRARY_PATH",),
            safe=by_variable,
        ),
        causes=("driver",),
    )


def _advice(*, compat: bool, by_variable: bool) -> str:
    if by_variable:
        return "Start without that folder on LD_LIBRARY_PATH: the driver's own libcuda is newer"
    if compat:
        return "Remove the compat folder from /etc/ld.so.conf.d and run ldconfig, or start the container without it"
    return (
        "Remove the driver's libraries from the image: the container runtime mounts those of the host. On the host "
        "itself, reinstall the driver: its kernel module and its libraries are of two versions"
    )
