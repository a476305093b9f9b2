"""An extension that was built for another CUDA major than torch.

What it finds:
    Extension modules and libraries whose DT_NEEDED names libraries of one CUDA major (libcudart.so.13) where torch is
    a build of another, in distributions that bring no build for torch's. One that is named after its major
    (cupy-cuda12x) only where it can neither find nor open that major's libraries. A warning where the distribution's
    own code catches the failure and goes on (xformers), or where only a part of it needs the library.

Why it matters:
    The error names a missing library, which is often even installed: another dependency pulled the other CUDA in.
    Putting its folder on LD_LIBRARY_PATH "fixes" the import and then shadows libcusparse.so.12, libcurand.so.10 and
    libcufile.so.0, whose sonames are the same in CUDA 12 and 13.

Example:
    vllm 0.22.0 from the default index needs `libcudart.so.13`, torch is 2.11.0+cu129 (vllm issue 44335).

Fix:
    Install the build of the extension for torch's CUDA, or the torch of the extension's, or keep the two apart.
"""

import re
from collections.abc import Iterator

from envdoctor.analysis.context import CheckContext, DoesNotApplyError
from envdoctor.analysis.damage import listed, site_relative
from envdoctor.analysis.load_evidence import bound, faults, opens_its_own
from envdoctor.analysis.remedies import restore_or
from envdoctor.catalog.cudalibs import owner_major
from envdoctor.model.finding import Finding
from envdoctor.probes.loading.load_faults import LoadFault
from envdoctor.probes.loading.symbols import CudaUser
from envdoctor.probes.loading.torch_build import TorchBuild
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.standards.requirements import required_names

CODE = "ED306"
NAME = "extension-cuda-mismatch"
AREA = "Shared libraries"
_SHOWN = 6


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for each distribution whose objects are all of another major."""
    build = case.facts[TorchBuild]
    if not build.present or not build.cuda_major:
        raise DoesNotApplyError("torch is not a CUDA build" if build.present else "torch is not there")
    groups: dict[str, list[CudaUser]] = {}
    for user in bound(case).cuda_users:
        groups.setdefault(user.owner, []).append(user)
    failed = {fault.path: fault for fault in faults(case, "major")}
    for owner, users in groups.items():
        # A distribution named after a CUDA major (cupy-cuda13x) was chosen for it, and may bring or open its own.
        named = owner_major(owner, users[0].owner_version)
        missing = [fault for user in users if (fault := failed.get(user.path)) and not opens_its_own(fault)]
        if all(user.major != build.cuda_major for user in users) and (named is None or missing):
            yield _finding(case, users, build, failed)


def _finding(case: CheckContext, users: list[CudaUser], build: TorchBuild, failed: dict[str, LoadFault]) -> Finding:
    first = min(users, key=lambda user: (not user.links_torch, user.path not in failed, not user.module))
    fault = failed.get(first.path)
    certain = first.links_torch and (fault is None or fault.opening != "caught")
    return Finding(
        code=CODE,
        name=NAME,
        severity="error" if certain else "warning",
        confidence="high" if first.links_torch or fault else "medium",
        title=f"{first.owner} {first.owner_version} was built for CUDA {first.major}; torch {build.version} is a CUDA "
        f"{build.cuda} build",
        subject=first.owner,
        evidence=(
            f"{site_relative(first.path)} needs {', '.join(first.needed)} (DT_NEEDED)",
            *((f"after `import torch` it cannot be loaded: {fault.message}",) if fault else ()),
            *_as_well([user for user in users if user.path in failed and user is not first]),
            *((f"{first.owner}'s own code catches that and goes on without it",) if _is_caught(fault) else ()),
            *_brought_by(case, first.major, first.owner),
        ),
        remediation=restore_or(case, _advice(first, build), []),
        causes=(f"build-of:{first.owner}",),
        symptom_of=(f"companion:{first.owner}:torch", "torch-build", "version:torch"),
    )


def _is_caught(fault: LoadFault | None) -> bool:
    return fault is not None and fault.opening == "caught"


def _as_well(users: list[CudaUser]) -> Iterator[str]:
    if users:
        needed = dict.fromkeys(name for user in users for name in user.needed)
        yield f"nor can {listed(user.path for user in users)}, which need {', '.join(needed)}"


def _advice(first: CudaUser, build: TorchBuild) -> str:
    """Return what to do: the sibling that is named after torch's major, or the project's own build for it."""
    own = owner_major(first.owner, first.owner_version)
    if own is not None:
        sibling = re.sub(rf"(cu(?:da)?-?){own}", rf"\g<1>{build.cuda_major}", first.owner)
        instead = f"install {sibling} instead of {first.owner}, if the project publishes it"
    else:
        instead = (
            f"install the build of {first.owner} for CUDA {build.cuda_major} (most projects keep it on an index of "
            "their own)"
        )
    return (
        f"{instead}, or a CUDA {first.major} build of torch, or give {first.owner} a venv of its own. Do not put "
        f"CUDA {first.major}'s folder on LD_LIBRARY_PATH: it would shadow libraries of the same name"
    )


def _brought_by(case: CheckContext, major: str, owner: str) -> Iterator[str]:
    """Yield which distributions of that CUDA major are installed, and who asked for them."""
    items = [item for item in case.facts[Distributions].items if not item.shadowed and item.name != owner]
    foreign = [item for item in items if owner_major(item.name, item.version) == major]
    requires = {item.name: required_names(item.requires) for item in items} if foreign else {}
    for item in foreign[:_SHOWN]:
        asking = [name for name, wanted in requires.items() if item.name in wanted]
        by = f"required by {', '.join(asking[:3])}" if asking else "required by nothing that is installed"
        yield f"CUDA {major} is here as {item.name} {item.version}, {by}"
    if len(foreign) > _SHOWN:
        yield f"and {len(foreign) - _SHOWN} more distributions of CUDA {major}"
