"""A GPU that the installed torch holds no code for.

What it finds:
    Devices whose compute capability is served neither by machine code (same major, minor not newer) nor by PTX (not
    newer) of the architectures compiled into torch, read from libtorch_python.so without loading it; where that one
    cannot be read, from the headers of libtorch_cuda.so's kernels.

Why it matters:
    `torch.cuda.is_available()` is True; the first kernel fails: "no kernel image is available for execution on the
    device".

Example:
    A B200 (10.0) under torch 2.6.0+cu124 with code for 5.0 to 9.0.

Fix:
    Take a torch build that names the architecture; a newer CUDA flavour for new GPUs, an older one for old ones.
"""

import re
from collections.abc import Iterator, Sequence

from envdoctor.analysis.context import CheckContext, DoesNotApplyError
from envdoctor.analysis.remedies import restore_or
from envdoctor.model.finding import Finding
from envdoctor.model.pattern import pattern
from envdoctor.probes.loading.gpu_code import GpuCode
from envdoctor.probes.loading.torch_build import TorchBuild
from envdoctor.probes.machine.gpu import Device, Gpu

CODE = "ED704"
NAME = "gpu-not-in-build"
AREA = "Driver / GPU"
_NAME = pattern(r"^(?P<kind>sm|compute)_(?P<major>\d+)(?P<minor>\d)(?P<suffix>[af]?)$")


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for all devices without code."""
    build, code, gpu = case.facts[TorchBuild], case.facts[GpuCode], case.facts[Gpu]
    if not gpu.devices or not build.cuda:
        raise DoesNotApplyError("no GPU is listed" if build.cuda else "torch is not a CUDA build")
    if not code.architectures:
        raise DoesNotApplyError(f"the build's architectures could not be determined: {code.told_from}")
    without = [device for device in gpu.devices if device.compute_capability and not served(device, code.architectures)]
    if without:
        yield _finding(case, build, code, without)


def served(device: Device, architectures: Sequence[str]) -> bool:
    """Tell whether one of the architectures runs on the device, by CUDA's rules of binary and PTX compatibility."""
    major, _, minor = device.compute_capability.partition(".")
    capability = (int(major), int(minor))
    return any(_runs(match, capability) for name in architectures if (match := _NAME.match(name)))


def _runs(match: re.Match[str], capability: tuple[int, int]) -> bool:
    code = (int(match["major"]), int(match["minor"]))
    if match["suffix"] == "a":
        return code == capability
    if match["kind"] == "compute" and not match["suffix"]:
        return code <= capability
    return code[0] == capability[0] and code[1] <= capability[1]


def _finding(case: CheckContext, build: TorchBuild, code: GpuCode, without: Sequence[Device]) -> Finding:
    first = without[0]
    return Finding(
        code=CODE,
        name=NAME,
        severity="error",
        confidence="high",
        title=f"torch {build.version} holds no code for {first.name} (compute capability {first.compute_capability})",
        subject=first.name,
        evidence=(
            f"compiled for {' '.join(code.architectures)}, says {code.told_from}",
            *(f"GPU {device.index}: {device.name}, {device.compute_capability}" for device in without[:8]),
        ),
        remediation=restore_or(
            case, "take a torch build whose architectures include it: a newer CUDA flavour for a new GPU", []
        ),
        symptom_of=("torch-build",),
    )
