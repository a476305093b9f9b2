"""Where two nodes' environments differ, from their fingerprints alone.

Weighed by what it does to a job of both: a difference in torch, in a communication library's bytes or in the CUDA
major makes ranks fail or hang at the first collective, and NCCL has no message for it. Equal versions are not enough:
RECORD's digest and the faults against it are compared too.
"""

from collections.abc import Iterator, Mapping
from typing import Literal

from envdoctor.catalog.variables import known
from envdoctor.model.fingerprint import Fingerprint
from envdoctor.model.frozen import frozen
from envdoctor.probes.caches.compile_caches import CompileCaches
from envdoctor.probes.loading.libraries import Libraries
from envdoctor.probes.loading.torch_build import TorchBuild
from envdoctor.probes.machine.environment import Environment
from envdoctor.probes.machine.gpu import Gpu
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.probes.venv.installed_files import InstalledFiles
from envdoctor.probes.venv.interpreter import Interpreter

Weight = Literal["must be equal", "should be equal", "may differ"]
_DECISIVE = ("torch", "triton", "nvidia-nccl", "nvidia-nvshmem", "nvidia-cudnn", "nvidia-cublas")


@frozen
class Difference:
    """One thing that is not the same on both nodes."""

    subject: str
    """"torch", "nvidia-nccl-cu12 (files)", "environment NCCL_IB_DISABLE"."""
    one: str
    """"not there" and "could not be read" are told apart from values."""
    other: str
    weight: Weight


def compare(one: Fingerprint, other: Fingerprint) -> tuple[Difference, ...]:
    """Return the differences, the weightiest first, then by subject. Equal fingerprints have none."""
    left, right = _values(one), _values(other)
    found = [
        Difference(
            subject=subject,
            one=left.get(subject, _absence(one)),
            other=right.get(subject, _absence(other)),
            weight=_weight(subject),
        )
        for subject in left.keys() | right.keys()
        if left.get(subject) != right.get(subject)
    ]
    order: Mapping[Weight, int] = {"must be equal": 0, "should be equal": 1, "may differ": 2}
    return tuple(sorted(found, key=lambda item: (order[item.weight], item.subject)))


def _absence(fingerprint: Fingerprint) -> str:
    return f"not there ({len(fingerprint.unread)} sections could not be read)" if fingerprint.unread else "not there"


def _values(fingerprint: Fingerprint) -> dict[str, str]:
    return dict(
        (
            *_stack(fingerprint),
            *_packages(fingerprint),
            *_files(fingerprint),
            *_libraries(fingerprint),
            *_host(fingerprint),
        )
    )


def _stack(fingerprint: Fingerprint) -> Iterator[tuple[str, str]]:
    if python := fingerprint.get(Interpreter):
        yield "Python", python.version
    if (build := fingerprint.get(TorchBuild)) and build.present:
        yield "torch build", build.version
        yield "torch CUDA", build.cuda or "none"
        yield "torch commit", build.git_version


def _packages(fingerprint: Fingerprint) -> Iterator[tuple[str, str]]:
    if installed := fingerprint.get(Distributions):
        yield from ((item.name, item.version) for item in installed.items if not item.shadowed)


def _files(fingerprint: Fingerprint) -> Iterator[tuple[str, str]]:
    files = fingerprint.get(InstalledFiles)
    if files is None:
        return
    damage = {owner.name: "" for owner in files.owners}
    for fault in files.faults:
        damage[fault.owner] = f"{damage.get(fault.owner, '')}; {fault.path} {fault.kind}"
    for contested in files.contested:
        for claim in contested.claims:
            told = " and ".join(contested.on_disk) or contested.told_by
            damage[claim.owner] = f"{damage.get(claim.owner, '')}; {contested.path} of {told}"
    for owner in files.owners:
        yield f"{owner.name} (files)", f"RECORD {owner.record_sha256[:12]}{damage[owner.name]}"


def _libraries(fingerprint: Fingerprint) -> Iterator[tuple[str, str]]:
    if libraries := fingerprint.get(Libraries):
        for item in libraries.providers:
            owner = f" of {item.owner} {item.owner_version}" if item.owner else ""
            yield f"library {item.soname}", f"{item.path}{owner}"


def _host(fingerprint: Fingerprint) -> Iterator[tuple[str, str]]:
    if gpu := fingerprint.get(Gpu):
        yield "driver", gpu.driver_version or gpu.state
        yield "GPUs", ", ".join(device.name for device in gpu.devices) or gpu.state
    if environment := fingerprint.get(Environment):
        # What each rank, node or user has for itself differs by design.
        kept = (one for one in environment.variables if (row := known(one.name)) is None or row.scope == "stack")
        yield from ((f"environment {one.name}", one.value) for one in kept)
    if caches := fingerprint.get(CompileCaches):
        yield from ((f"cache {cache.kind}", cache.path) for cache in caches.caches)


def _weight(subject: str) -> Weight:
    if subject.startswith(("torch ", *_DECISIVE)):
        return "must be equal"
    if subject.startswith(("environment NCCL_", "library ")) or subject in ("driver", "Python", "GPUs"):
        return "should be equal"
    return "may differ" if subject.startswith(("environment ", "cache ")) else "should be equal"
