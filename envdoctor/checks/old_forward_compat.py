"""A forward-compatibility libcuda in front of a newer driver.

What it finds:
    The libcuda.so.1 that a process would load lies in a `compat` folder and is older than the loaded kernel module.

Why it matters:
    The compatibility package lets a new CUDA run on an old driver. In front of a newer driver it is the wrong way
    round: initialization fails with error 803 ("unsupported display driver / cuda driver combination") or 804.

Example:
    An image puts /usr/local/cuda-12.8/compat (570.86) on LD_LIBRARY_PATH; the node's driver is 580.65.

Fix:
    Take the compat folder out of LD_LIBRARY_PATH or of ld.so.conf; the driver's own libcuda is then found.
"""

import shlex
from collections.abc import Iterator

from envdoctor.analysis.context import Case
from envdoctor.model.finding import Finding, Remediation
from envdoctor.probes.machine.gpu import Gpu
from envdoctor.probes.machine.library_path import LibraryPath
from envdoctor.standards.need import meets

CODE = "ED703"
NAME = "old-forward-compat"
AREA = "Driver / GPU"


def run(case: Case) -> Iterator[Finding]:
    """Yield one finding when the compatibility library is the older one."""
    gpu = case.facts[Gpu]
    folder = gpu.libcuda.rpartition("/")[0]
    if "/compat" not in folder or not gpu.module_version or not gpu.libcuda_version:
        return
    if meets(gpu.libcuda_version, f">={gpu.module_version}"):
        return
    elements = [item.element for item in case.facts[LibraryPath].folders]
    by_variable = folder in [element.rstrip("/") for element in elements]
    kept = [element for element in elements if element and element.rstrip("/") != folder]
    yield Finding(
        code=CODE,
        name=NAME,
        severity="error",
        confidence="high",
        title=f"libcuda.so.1 {gpu.libcuda_version} of the forward-compatibility package stands in front of driver "
        f"{gpu.module_version}, which is newer",
        subject="libcuda.so.1",
        evidence=(
            gpu.libcuda,
            f"found through {'LD_LIBRARY_PATH' if by_variable else 'the loader cache or ld.so.conf'}",
        ),
        remediation=Remediation(
            text="Take the compat folder away: the driver's own libcuda is newer"
            if by_variable
            else "Remove the compat folder from /etc/ld.so.conf.d and run ldconfig, or start the container without it",
            commands=()
            if not by_variable
            else (f"export LD_LIBRARY_PATH={shlex.quote(':'.join(kept))}" if kept else "unset LD_LIBRARY_PATH",),
            safe=by_variable,
        ),
        causes=("driver",),
    )
