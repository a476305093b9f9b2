"""An extension that was built for another CUDA major than torch.

What it finds:
    Extension modules and libraries whose DT_NEEDED names libraries of one CUDA major (libcudart.so.13) where torch is
    a build of another, in distributions that bring no build for torch's.

Why it matters:
    The error names a missing library, which is often even installed: another dependency pulled the other CUDA in.
    Putting its folder on LD_LIBRARY_PATH "mends" the import and then shadows libcusparse.so.12, libcurand.so.10 and
    libcufile.so.0, whose sonames are the same in CUDA 12 and 13.

Example:
    vllm 0.22.0 from the default index needs `libcudart.so.13`, torch is 2.11.0+cu129 (vllm issue 44335).

Fix:
    Install the build of the extension for torch's CUDA, or the torch of the extension's, or keep the two apart.
"""

from collections.abc import Iterator

from envdoctor.analysis.context import Case, DoesNotApplyError
from envdoctor.analysis.damage import site_relative
from envdoctor.analysis.load_evidence import bound, faults
from envdoctor.analysis.remedies import restore_or
from envdoctor.catalog.cudalibs import owner_major
from envdoctor.model.finding import Finding
from envdoctor.probes.loading.symbols import CudaUser
from envdoctor.probes.loading.torch_build import TorchBuild
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.standards.requirements import required_names

CODE = "ED306"
NAME = "extension-of-another-cuda"
AREA = "Shared libraries"
_SHOWN = 6


def run(case: Case) -> Iterator[Finding]:
    """Yield one finding for each distribution whose objects are all of another major."""
    build = case.facts[TorchBuild]
    if not build.present or not build.cuda_major:
        raise DoesNotApplyError("torch is not a CUDA build" if build.present else "torch is not there")
    groups: dict[str, list[CudaUser]] = {}
    for user in bound(case).cuda_users:
        groups.setdefault(user.owner, []).append(user)
    for owner, users in groups.items():
        # A distribution named after a CUDA major (cupy-cuda13x) was chosen for it, and brings or opens its own.
        named = owner_major(owner, users[0].owner_version)
        if named is None and all(user.major != build.cuda_major for user in users):
            yield _finding(case, users, build)


def _finding(case: Case, users: list[CudaUser], build: TorchBuild) -> Finding:
    failed = {fault.path: fault.message for fault in faults(case, "major")}
    first = min(users, key=lambda user: (not user.links_torch, user.path not in failed, not user.module))
    said = failed.get(first.path, "")
    return Finding(
        code=CODE,
        name=NAME,
        severity="error" if first.links_torch else "warning",
        confidence="high" if first.links_torch or said else "medium",
        title=f"{first.owner} {first.owner_version} was built for CUDA {first.major}; torch {build.version} is a CUDA "
        f"{build.cuda} build",
        subject=first.owner,
        evidence=(
            f"{site_relative(first.path)} needs {', '.join(first.needed)} (DT_NEEDED)",
            *((f"after `import torch` it cannot be loaded: {said}",) if said else ()),
            *_brought_by(case, first.major),
        ),
        remediation=restore_or(
            case,
            f"install the build of {first.owner} for CUDA {build.cuda_major} (most projects keep it on an index of "
            f"their own), or a CUDA {first.major} build of torch, or give {first.owner} a venv of its own. Do not put "
            f"CUDA {first.major}'s folder on LD_LIBRARY_PATH: it would shadow libraries of the same name",
            [],
        ),
        symptom_of=(f"companion:{first.owner}:torch", "torch-build", "version:torch"),
    )


def _brought_by(case: Case, major: str) -> Iterator[str]:
    """Yield which distributions of that CUDA major are installed, and who asked for them."""
    items = [item for item in case.facts[Distributions].items if not item.shadowed]
    foreign = [item for item in items if owner_major(item.name, item.version) == major]
    requires = {item.name: required_names(item.requires) for item in items} if foreign else {}
    for item in foreign[:_SHOWN]:
        asking = [name for name, wanted in requires.items() if item.name in wanted]
        by = f"required by {', '.join(asking[:3])}" if asking else "required by nothing that is installed"
        yield f"CUDA {major} is here as {item.name} {item.version}, {by}"
    if len(foreign) > _SHOWN:
        yield f"and {len(foreign) - _SHOWN} more distributions of CUDA {major}"
