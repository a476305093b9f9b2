"""Another torch build than the profile's.

What it finds:
    torch/version.py says another version, CUDA version or git commit than the profile, or torch is not there at all.

Why it matters:
    The distribution's version hides the flavour: PyPI's 2.11.0 is a CUDA 13.0 build, the locked 2.11.0+cu128 is not,
    and both satisfy `torch==2.11.0`.

    Where half of the lock is not installed as pinned, this is another stack: what else the lock finds is then a part of
    this finding.

Example:
    torch 2.11.0+cu130 is installed, the profile wants 2.11.0+cu128.

Fix:
    `envdoctor restore --profile NAME`.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.remedies import restore_or
from envdoctor.checks.version_drift import off_the_lock, same_version
from envdoctor.model.finding import Finding
from envdoctor.probes.loading.torch_build import TorchBuild
from envdoctor.probes.venv.shadowing import Shadowing

if TYPE_CHECKING:  # as in context.py
    from envdoctor.model.profile import TorchWanted

CODE = "ED404"
NAME = "torch-build-drift"
AREA = "torch build"


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding when the build differs."""
    wanted = case.wanted().torch
    build = case.facts[TorchBuild]
    if build.present and not (differences := _differences(build, wanted)):
        return
    if not build.present:
        title = f"torch is not installed; the profile wants {wanted.version}"
        differences = ["no torch/__init__.py in any folder of sys.path"]
        if build.distribution_version:
            differences.append(f"although the metadata of torch {build.distribution_version} is there")
    else:
        title = f"torch is {build.version or 'of unknown version'}; the profile wants {wanted.version}"
        differences.append(f"read from {build.folder}/version.py (the distribution calls itself {_shown(build)})")
    off, pinned = off_the_lock(case)
    another_stack = build.present and 2 * off >= pinned > 0
    if another_stack:
        differences.append(f"{off} of {pinned} locked distributions are not installed at their version: another stack")
    yield Finding(
        code=CODE,
        name=NAME,
        severity="error",
        confidence="high",
        title=title,
        subject="torch",
        evidence=tuple(differences),
        remediation=restore_or(case, f"install torch {wanted.version}", []),
        causes=("dist:torch", "version:torch", "torch-build", *(("another-stack",) if another_stack else ())),
        symptom_of=_symptom_of(case, build),
    )


def _symptom_of(case: CheckContext, build: TorchBuild) -> tuple[str, ...]:
    if not build.present:
        return ("dist:torch",)
    shadowing = case.facts.get(Shadowing)
    # A torch of the current folder is not the one that was read here.
    in_front = {f"{shadow.front}/torch" for shadow in shadowing.shadows} if shadowing else set()
    return ("shadow:torch",) if build.folder in in_front else ()


def _shown(build: TorchBuild) -> str:
    return build.distribution_version or "nothing: it has no metadata"


def _differences(build: TorchBuild, wanted: "TorchWanted") -> list[str]:
    found = []
    if not same_version(build.version, wanted.version):
        found.append(f"version: {build.version or 'not stated'} instead of {wanted.version}")
    if build.cuda != wanted.cuda:
        found.append(f"CUDA: {build.cuda or 'none'} instead of {wanted.cuda or 'none'}")
    if wanted.git_version and build.git_version and build.git_version != wanted.git_version:
        found.append(f"git commit: {build.git_version[:12]} instead of {wanted.git_version[:12]}")
    return found
