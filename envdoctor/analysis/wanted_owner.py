"""Which of several owners of a path this environment is meant to have."""

from collections.abc import Iterable

from envdoctor.analysis.context import CheckContext
from envdoctor.catalog.cudalibs import owner_major
from envdoctor.probes.loading.torch_build import TorchBuild
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.standards.requirements import required_names


def wanted_owner(case: CheckContext, owners: Iterable[tuple[str, str]]) -> tuple[str, str]:
    """Return (the owner meant, how that was told); two empty strings when it cannot be determined.

    `owners` are (name, version). The lock decides, then torch's own requirements, then torch's CUDA major.
    """
    chosen = list(owners)
    pins = case.pins()
    if len(named := [name for name, _ in chosen if name in pins]) == 1:
        return named[0], "pinned by the lock"
    installed = case.facts[Distributions]
    torch = installed.active("torch")
    if torch is not None:
        asked = required_names(torch.requires)
        if len(named := [name for name, _ in chosen if name in asked]) == 1:
            return named[0], f"required by torch {torch.version}"
    build = case.facts.get(TorchBuild)
    if build is not None and build.cuda_major:
        fitting = [name for name, version in chosen if owner_major(name, version) == build.cuda_major]
        if len(fitting) == 1:
            return fitting[0], f"torch is a CUDA {build.cuda} build"
    return "", ""
