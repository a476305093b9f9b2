"""A library served by another CUDA major than torch's.

What it finds:
    Shared objects that torch's import maps (or opens later) and whose bytes belong to a distribution, or a toolkit
    folder, of another CUDA major than the one torch was built for.

Why it matters:
    The sonames of cuDNN, NCCL, cuSPARSELt, cuSPARSE, cuRAND and cuFile do not carry the CUDA major, so the loader takes
    either. The import works; what happens on the GPU is untested by anyone.

Example:
    torch is a cu128 build and `libnccl.so.2` holds the bytes of `nvidia-nccl-cu13`.

Fix:
    Put the bytes of the right major back (see the finding that explains this one).
"""

from collections.abc import Iterator

from envdoctor.analysis.context import Case, DoesNotApplyError
from envdoctor.analysis.remedies import restore_or
from envdoctor.model.finding import Finding
from envdoctor.probes.loading.libraries import Libraries, Provider
from envdoctor.probes.loading.torch_build import TorchBuild

CODE = "ED302"
NAME = "foreign-cuda-major"
AREA = "Shared libraries"


def run(case: Case) -> Iterator[Finding]:
    """Yield one finding for each library of a foreign major."""
    build = case.facts[TorchBuild]
    if not build.present or not build.cuda_major:
        raise DoesNotApplyError("torch is not a CUDA build" if build.present else "torch is not there")
    for item in case.facts[Libraries].providers:
        if item.cuda_major and item.cuda_major != build.cuda_major:
            yield _finding(case, item, build)


def _finding(case: Case, item: Provider, build: TorchBuild) -> Finding:
    owner = f"{item.owner} {item.owner_version}" if item.owner else item.path
    return Finding(
        code=CODE,
        name=NAME,
        severity="error" if item.stage != "lazy" else "warning",
        confidence="high" if item.owner else "medium",
        title=f"{item.soname} is served by CUDA {item.cuda_major}; torch {build.version} is a CUDA {build.cuda} build",
        subject=item.soname,
        evidence=(
            f"{item.path} is found via {item.found_via}",
            f"its bytes belong to {owner}",
            f"needed by {item.needed_by}" if item.needed_by else "opened by torch's preload list",
        ),
        remediation=restore_or(case, f"let {item.soname} come from a CUDA {build.cuda_major} distribution again", []),
        symptom_of=(f"bytes:{item.path}", f"path-variable:{item.found_via}"),
    )
