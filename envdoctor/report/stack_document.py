"""What a report says of the stack itself, from the facts: the machine, the distributions, the libraries of torch."""

from collections.abc import Iterator
from typing import Any

from envdoctor.catalog.cudalibs import DRIVER_LIBRARIES
from envdoctor.model.fingerprint import Fingerprint
from envdoctor.model.wording import size
from envdoctor.probes.loading.libraries import Libraries, Provider, Unresolved
from envdoctor.probes.loading.torch_build import TorchBuild
from envdoctor.probes.machine.environment import Environment
from envdoctor.probes.machine.gpu import Gpu
from envdoctor.probes.machine.platform import Platform
from envdoctor.probes.machine.toolchain import Toolchain
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.probes.venv.installed_files import InstalledFiles
from envdoctor.probes.venv.interpreter import Interpreter


def stack_document(facts: Fingerprint) -> dict[str, Any]:
    """Return plain values. What could not be read is not there: `could_not_tell` of the report says why."""
    found = facts.get(Distributions)
    return {
        "machine": [{"name": name, "value": value} for name, value in _machine(facts) if value],
        "distributions": {item.name: item.version for item in (found.items if found else ()) if not item.shadowed},
        "libraries": list(_libraries(facts)),
    }


def _machine(facts: Fingerprint) -> Iterator[tuple[str, str]]:
    if python := facts.get(Interpreter):
        by = f", venv by {python.created_by}" if python.created_by else ""
        yield "Python", f"{python.version} ({python.machine}{by})"
    if build := facts.get(TorchBuild):
        yield "torch", build.version
        yield "CUDA of the build", build.cuda
        yield "ROCm of the build", build.hip
        yield "torch commit", build.git_version
    if platform := facts.get(Platform):
        inside = platform.container_name if platform.container else ""
        kind = ", ".join(part for part in (inside, "WSL" * platform.wsl, "musl" * platform.musl) if part)
        yield "Kernel", f"{platform.kernel} ({kind})" if kind else platform.kernel
    if gpu := facts.get(Gpu):
        yield "NVIDIA driver", gpu.driver_version or gpu.reason
        yield "CUDA of the driver", gpu.cuda_version
        yield "libcuda", gpu.libcuda
        for item in gpu.devices:
            shown = f"{item.name}, {size(item.memory_bytes)}, compute capability {item.compute_capability or 'unknown'}"
            yield f"GPU {item.index}", shown
    if tools := facts.get(Toolchain):
        yield "C++ compiler", tools.cxx
        yield "C compiler", tools.cc
    if environment := facts.get(Environment):
        # Our own settings are no part of the stack.
        named = (item for item in environment.variables if not item.name.startswith("ENVDOCTOR_"))
        yield from ((f"${item.name}", item.value) for item in named)


def _libraries(facts: Fingerprint) -> Iterator[dict[str, Any]]:
    libraries, files = facts.get(Libraries), facts.get(InstalledFiles)
    claims: dict[str, list[str]] = {}
    lost: dict[str, str] = {}
    if files:
        claims = {item.path: [claim.owner for claim in item.claims] for item in files.contested}
        lost = {fault.path.rpartition("/")[2]: fault.owner for fault in files.faults}
    for item in libraries.providers if libraries else ():
        yield _loaded(item, claims.get(item.path, []))
    for gap in libraries.unresolved if libraries else ():
        yield _missing(gap, lost.get(gap.soname, ""), facts.get(Gpu))


def _loaded(item: Provider, claims: list[str]) -> dict[str, Any]:
    return {
        "soname": item.soname,
        "state": "loaded",
        "path": item.path,
        "owner": item.owner or None,
        "version": item.owner_version or None,
        "cuda_major": item.cuda_major or None,
        "claimed_by": claims,
        "needed_by": item.needed_by or None,
        "asked_by": item.asked_by or None,
        "stage": item.stage,
    }


def _missing(gap: Unresolved, owner: str, gpu: Gpu | None) -> dict[str, Any]:
    no_driver = gap.soname in DRIVER_LIBRARIES and (gpu is None or gpu.state == "absent")
    return {
        "soname": gap.soname,
        "state": "no driver" if no_driver else "missing",
        "path": gap.lies_at or None,
        "owner": owner or None,
        "version": None,
        "cuda_major": None,
        "claimed_by": [],
        "needed_by": gap.needed_by or None,
        "asked_by": None,
        "stage": gap.stage,
    }
