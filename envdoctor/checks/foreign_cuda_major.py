"""A library that torch needs, served by another CUDA major than torch's.

What it finds:
    Shared objects that torch, or a library of its CUDA major, has in its DT_NEEDED or opens by name, and whose bytes
    belong to a distribution, or a toolkit folder, of another CUDA major than the one torch was built for.

Why it matters:
    The sonames of cuDNN, NCCL, cuSPARSELt, cuSPARSE, cuRAND and cuFile do not carry the CUDA major, so the loader takes
    either. The import works; what happens on the GPU is untested by anyone. Libraries of another major that are only
    mapped beside torch's own (`libcublas.so.12` of jax[cuda12], which torch 2.15 opens too) harm nothing: nothing of
    torch is bound to them.

Example:
    torch is a cu128 build and `libnccl.so.2` holds the bytes of `nvidia-nccl-cu13`.

Fix:
    Put the bytes of the right major back (see the finding that explains this one). Where both majors bring the soname
    in folders of their own, take the other requirer's build for torch's major, or give it a venv of its own.
"""

from collections.abc import Iterator

from envdoctor.analysis.context import CheckContext, DoesNotApplyError
from envdoctor.analysis.damage import site_relative
from envdoctor.analysis.remedies import restore_or
from envdoctor.model.finding import Finding, Remediation
from envdoctor.model.wording import counted
from envdoctor.probes.loading.libraries import Libraries, Provider
from envdoctor.probes.loading.torch_build import TorchBuild
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.probes.venv.installed_files import InstalledFiles
from envdoctor.standards.requirements import required_names

CODE = "ED302"
NAME = "foreign-cuda-major"
AREA = "Shared libraries"


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for all libraries of one foreign major."""
    build = case.facts[TorchBuild]
    if not build.present or not build.cuda_major:
        raise DoesNotApplyError("torch is not a CUDA build" if build.present else "torch is not there")
    foreign = [
        item for item in case.facts[Libraries].providers if item.cuda_major and item.cuda_major != build.cuda_major
    ]
    beside = {item.path for item in foreign}
    # A path that several distributions own is explained by that conflict; the others stay when it is fixed.
    files = case.facts.get(InstalledFiles)
    contested = {item.path for item in files.contested} if files else set()
    groups: dict[tuple[str, bool], list[tuple[Provider, str]]] = {}
    for item in foreign:
        # What another library of that major brought in, or torch's preload list, serves nothing of torch by that.
        asker = item.asked_by or ("" if item.needed_by in beside else item.needed_by)
        if asker:
            groups.setdefault((item.cuda_major, item.path in contested), []).append((item, asker))
    for (major, _), items in groups.items():
        yield _finding(case, major, items, build)


def _finding(case: CheckContext, major: str, items: list[tuple[Provider, str]], build: TorchBuild) -> Finding:
    names = [item.soname for item, _ in items]
    what = f"{names[0]} is" if len(names) == 1 else f"{counted(len(names), 'library')} that torch needs are"
    evidence = []
    for item, asker in items:
        opens = "opens it by name" if item.stage == "lazy" and item.needed_by == asker else "needs it (DT_NEEDED)"
        evidence += [
            f"{item.soname}: {site_relative(asker)} {opens}",
            f"{site_relative(item.path)} is found via {item.found_via}",
            f"its bytes belong to {_owner(item)}",
        ]
    return Finding(
        code=CODE,
        name=NAME,
        severity="error" if any(item.stage != "lazy" for item, _ in items) else "warning",
        confidence="high" if all(item.owner for item, _ in items) else "medium",
        title=f"{what} served by CUDA {major}; torch {build.version} is a CUDA {build.cuda} build",
        subject=", ".join(names),
        evidence=tuple(evidence),
        remediation=_remedy(case, [item for item, _ in items], build),
        symptom_of=tuple(
            token for item, _ in items for token in (f"bytes:{item.path}", f"path-variable:{item.found_via}")
        ),
    )


def _owner(item: Provider) -> str:
    return f"{item.owner} {item.owner_version}" if item.owner else "no distribution"


def _remedy(case: CheckContext, items: list[Provider], build: TorchBuild) -> Remediation:
    names = " and ".join(item.soname for item in items)
    owners = sorted({item.owner for item in items if item.owner})
    asking = [
        item.name for item in case.facts[Distributions].items if not required_names(item.requires).isdisjoint(owners)
    ]
    # NVIDIA's own libraries of that major ask for each other; somebody else wanted them.
    requirers = [name for name in asking if not name.startswith("nvidia-")] or asking
    text = f"let {names} come from a CUDA {build.cuda_major} distribution again"
    if not requirers:
        # Of a path that several own, an uninstall deletes what is meant too: that is the file conflict's business.
        return restore_or(case, text, [])
    return restore_or(
        case,
        f"{text}: {' and '.join(owners)} is here for {', '.join(requirers[:3])}. Take the build of that for CUDA "
        f"{build.cuda_major} (jax[cuda13] instead of jax[cuda12]), or give it a venv of its own",
        [],
    )
