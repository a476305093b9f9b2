"""The parts of one CUDA library taken from two places.

What it finds:
    Libraries that come in parts which open each other by name (cuDNN's sub-libraries, cuBLAS and cuBLASLt, NVRTC and
    its builtins), where one part comes from a wheel and another from the system or from LD_LIBRARY_PATH. It is an error
    where the parts compare versions, a note for a plug-in that torch works without (cuFile's for RDMA).

Why it matters:
    The parts check each other's version at their first use: the import is fine, and the first convolution ends with
    CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH. DT_NEEDED names none of them.

Example:
    nvidia-cudnn-cu13 9.20 does not bring libcudnn_engines_tensor_ir.so.9, the distribution's cuDNN 9.23 in /usr/lib
    does, and libcudnn_graph.so.9 opens it by its bare name (pytorch issue 188892).

Fix:
    Hide the other copy from the loader. Reinstalling the wheel changes nothing: the part is not in it.
"""

from collections.abc import Iterator

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.damage import site_relative
from envdoctor.analysis.load_evidence import VARIABLE
from envdoctor.analysis.variable_commands import without_library_folder
from envdoctor.catalog.cudalibs import library_of, majors_of
from envdoctor.model.finding import Finding, Remediation
from envdoctor.probes.loading.libraries import Libraries, Provider

CODE = "ED308"
NAME = "split-library-family"
AREA = "Shared libraries"
# cuFile opens its RDMA plug-in only for GPUDirect Storage: torch computes with any of it (seen on an H200).
_PLUG_INS = {"cufile"}


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for each family with parts in and out of the environment."""
    families: dict[str, list[Provider]] = {}
    for item in case.facts[Libraries].providers:
        library = library_of(item.soname)
        if library is not None:
            families.setdefault(library.family or library.name, []).append(item)
    for family, parts in families.items():
        outside = [part for part in parts if not part.owner and part.path.startswith("/")]
        # libcudart.so.12, which another package brought, is not part of what libcudart.so.13 belongs to.
        inside = [part for part in parts if part.owner and any(_of_one_major(part, other) for other in outside)]
        if inside:
            yield _finding(case, family, inside[0], outside)


def _of_one_major(part: Provider, other: Provider) -> bool:
    majors, others = majors_of(part.soname), majors_of(other.soname)
    return not majors or not others or not set(majors).isdisjoint(others)


def _finding(case: CheckContext, family: str, inside: Provider, outside: list[Provider]) -> Finding:
    part = outside[0]
    folder = part.path.rpartition("/")[0]
    return Finding(
        code=CODE,
        name=NAME,
        severity="note" if family in _PLUG_INS else "error",
        confidence="high",
        title=f"{part.soname} is taken from {folder}, the rest of {family} from {inside.owner} {inside.owner_version}",
        subject=part.soname,
        evidence=(
            *(
                f"{item.path} is found via {item.found_via}, opened by {site_relative(item.needed_by)}"
                for item in outside
            ),
            f"{site_relative(inside.path)} is {inside.owner}'s, found via {inside.found_via}",
        ),
        remediation=_remedy(case, part, inside),
        symptom_of=(f"path-variable:{part.found_via}", f"soname:{part.soname}"),
    )


def _remedy(case: CheckContext, part: Provider, inside: Provider) -> Remediation:
    rest = f"A newer {inside.owner} may bring the part itself, where torch's own pin allows one"
    if part.found_via == VARIABLE:
        return Remediation(
            text=f"Start without {VARIABLE}: what the wheel does not bring is then left unused. {rest}",
            commands=(without_library_folder(case, part.path),),
            safe=True,
        )
    return Remediation(
        text=f"Remove the system package that brings {part.path}, if nothing else needs it: what the wheel does not "
        f"bring is then left unused. {rest}. Reinstalling the wheel changes nothing",
    )
