"""The CUDA toolkit's stub in front of the driver's libcuda.

What it finds:
    The libcuda.so.1 that a process would load is the stub that the toolkit brings to link against, where a driver is
    installed: told from the file, whatever its folder is called.

Why it matters:
    Every call of it returns error 34. torch says "CUDA driver is a stub library", and `torch.cuda.is_available()` is
    False, while nvidia-smi and NVML work.

Example:
    A Dockerfile links `libcuda.so.1` in `/usr/local/cuda/lib64/stubs` for its build, and leaves the folder on
    LD_LIBRARY_PATH (measured on an H200: cuInit gives 34).

Fix:
    Take the folder out of LD_LIBRARY_PATH, or out of ld.so.conf.
"""

import shlex
from collections.abc import Iterator

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.variable_commands import without_library_folder
from envdoctor.model.finding import Finding, Remediation
from envdoctor.probes.machine.gpu import Gpu
from envdoctor.probes.machine.library_path import LibraryPath

CODE = "ED708"
NAME = "stub-libcuda"
AREA = "Driver / GPU"


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding where the stub hides a driver."""
    gpu = case.facts[Gpu]
    if not gpu.libcuda_is_stub or not (gpu.module_version or gpu.libcuda_behind):
        return
    folder = gpu.libcuda.rpartition("/")[0]
    by_variable = folder in [item.element.rstrip("/") for item in case.facts[LibraryPath].folders]
    yield Finding(
        code=CODE,
        name=NAME,
        severity="error",
        confidence="high",
        title="libcuda.so.1 is the CUDA toolkit's stub, which answers every call with error 34",
        subject="libcuda.so.1",
        evidence=(
            f"{gpu.libcuda} is found through {'LD_LIBRARY_PATH' if by_variable else 'the loader cache or ld.so.conf'}",
            f"the driver's own is {gpu.libcuda_behind}"
            if gpu.libcuda_behind
            else f"kernel module {gpu.module_version} is loaded, and no other libcuda.so.1 is found",
        ),
        remediation=_remedy(case, gpu.libcuda, by_variable=by_variable),
        causes=("driver",),
    )


def _remedy(case: CheckContext, stub: str, *, by_variable: bool) -> Remediation:
    if by_variable:
        return Remediation(
            text="Start without the stub's folder on LD_LIBRARY_PATH: it is for linking only",
            commands=(without_library_folder(case, stub),),
            safe=True,
        )
    return Remediation(
        text=f"Remove {shlex.quote(stub)}, or its folder from /etc/ld.so.conf.d, and run ldconfig: the stub is for "
        "linking only"
    )
