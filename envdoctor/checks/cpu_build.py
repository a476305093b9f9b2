"""A CPU build of torch on a machine with GPUs.

What it finds:
    torch whose version.py names none of CUDA, ROCm and XPU, where NVML lists devices.

Why it matters:
    `torch.cuda.is_available()` is False and a job runs on the CPU, or stops: "Torch not compiled with CUDA enabled".
    A plain `uv run` after `uv sync --extra cu128` swaps the build like that: the public version stays the same.

Example:
    torch 2.9.1+cpu on eight H200.

Fix:
    Install the CUDA build that the driver supports; pin it with its local part (`torch==2.9.1+cu128`).
"""

from collections.abc import Iterator

from envdoctor.analysis.context import CheckContext, DoesNotApplyError
from envdoctor.analysis.kept_torch import another_build
from envdoctor.analysis.remedies import install_line, restore_or, unless_outside
from envdoctor.model.finding import Finding
from envdoctor.model.wording import counted
from envdoctor.probes.loading.torch_build import TorchBuild
from envdoctor.probes.machine.gpu import Gpu

CODE = "ED411"
NAME = "cpu-build-with-gpu"
AREA = "torch build"


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield a note; with a profile the build itself is compared instead."""
    if case.profile is not None:
        raise DoesNotApplyError("the profile says which build is wanted")
    build, gpu = case.facts[TorchBuild], case.facts[Gpu]
    if not build.present or not build.version or build.cuda or build.unchecked_driver or not gpu.devices:
        return
    names, words = another_build(case, build.version.partition("+")[0], "auto")
    yield Finding(
        code=CODE,
        name=NAME,
        severity="note",
        confidence="high",
        title=f"torch {build.version} is a CPU build, on a machine with {counted(len(gpu.devices), 'GPU')}",
        subject="torch",
        evidence=(f"{build.folder}/version.py names no CUDA", f"driver {gpu.driver_version}, CUDA {gpu.cuda_version}"),
        remediation=unless_outside(
            case,
            names,
            restore_or(
                case,
                "if the GPUs are to be used, install the CUDA build that the driver supports, pinned with its local "
                "part",
                [install_line(case, names, words)],
            ),
            "leave it, if no GPU is needed",
        ),
    )
