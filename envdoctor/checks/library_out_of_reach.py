"""A library that an extension needs and no search path of it reaches.

What it finds:
    Extension modules (and libraries linked against torch or CUDA) that cannot be loaded after `import torch` for want
    of a library; and those that load only because LD_LIBRARY_PATH happens to lead to a library of this environment.

Why it matters:
    The file is there, `pip check` is content, and it works in the one shell where a conda or module hook has set the
    variable. CUDA 13's wheels moved to `nvidia/cu13/lib`, so extensions with the old search path miss them.

Example:
    `libnvrtc.so.13: cannot open shared object file`, with `nvidia/cu13/lib/libnvrtc.so.13` of nvidia-cuda-nvrtc 13.0.88
    installed (fvdb-core issue 648).

Fix:
    Import torch of the same CUDA major first (2.9 or newer opens all of NVIDIA's wheels), or open the one library
    beforehand. Not LD_LIBRARY_PATH in the launch script: it shadows what it does not mean to.
"""

from collections.abc import Iterator

from envdoctor.analysis.context import Case
from envdoctor.analysis.damage import site_relative
from envdoctor.analysis.load_evidence import VARIABLE, bound, faults, held, named, others
from envdoctor.analysis.remedies import install_command
from envdoctor.catalog.cudalibs import expected_owner, majors_of
from envdoctor.model.finding import Finding, Remediation
from envdoctor.probes.loading.load_faults import Fault
from envdoctor.probes.loading.symbols import Reached
from envdoctor.probes.loading.torch_build import TorchBuild

CODE = "ED307"
NAME = "library-out-of-reach"
AREA = "Shared libraries"


def run(case: Case) -> Iterator[Finding]:
    """Yield one finding for each distribution and library."""
    groups: dict[tuple[str, str], list[Fault]] = {}
    for fault in faults(case, "reach"):
        if fault.module or fault.has_it or majors_of(fault.name):
            groups.setdefault((fault.owner or fault.path, fault.name), []).append(fault)
    for items in groups.values():
        if not items[0].preloader:
            yield _missing(case, items)
    reached: dict[tuple[str, str], list[Reached]] = {}
    for item in bound(case).by_variable:
        reached.setdefault((item.owner or item.path, item.soname), []).append(item)
    for found in reached.values():
        yield _by_variable(case, found)


def _missing(case: Case, items: list[Fault]) -> Finding:
    fault = items[0]
    ours = bool(fault.has_it or majors_of(fault.name))
    where = held(fault.has_it)
    return Finding(
        code=CODE,
        name=NAME,
        # What no distribution brings belongs to an optional part as often as not, and to the system in any case.
        severity="error" if ours and fault.module else "warning" if ours else "note",
        confidence="high" if fault.module else "medium",
        title=f"{named(fault)} cannot be loaded: {fault.message}",
        subject=fault.owner or fault.path,
        evidence=(
            *((f"needed by {site_relative(fault.requester)}",) if fault.requester else ()),
            f"{fault.name} lies at {where}, where none of its search paths leads"
            if where
            else f"no distribution here brings {fault.name}",
            *others(items),
        ),
        remediation=_remedy(case, fault),
        symptom_of=(f"soname:{fault.name}",),
    )


def _remedy(case: Case, fault: Fault) -> Remediation:
    if fault.has_it:
        return _open_first(case, fault.name, fault.has_it[0].path, fault.owner)
    build = case.facts.get(TorchBuild)
    majors = majors_of(fault.name)
    major = build.cuda_major if build is not None and build.cuda_major in majors else (*majors, "")[0]
    owner = expected_owner(fault.name, major) if major else None
    if owner:
        return Remediation(text=f"Install {owner}", commands=(install_command(case, [(owner, "")]),))
    return Remediation(
        text=f"If {fault.owner or 'this module'} is used, install the system package that provides {fault.name}"
    )


def _open_first(case: Case, soname: str, path: str, owner: str) -> Remediation:
    majors = majors_of(soname)
    cuda = f" (2.9 or newer, a CUDA {majors[0]} build)" if len(majors) == 1 else ""
    full = path if path.startswith("/") else f"{case.facts.target}/{path}"
    return Remediation(
        text=f"Import torch{cuda} before {owner or 'it'}, or open the library first: "
        f'ctypes.CDLL("{full}", mode=ctypes.RTLD_GLOBAL). A build of {owner or "it"} whose RUNPATH leads there needs '
        f"neither. Do not put the folder on {VARIABLE}",
        safe=True,
    )


def _by_variable(case: Case, items: list[Reached]) -> Finding:
    item = items[0]
    more = f" and {len(items) - 1} more of its files" if len(items) > 1 else ""
    return Finding(
        code=CODE,
        name=NAME,
        severity="warning",
        confidence="high",
        title=f"{item.owner or item.path} finds {item.soname} through {VARIABLE} alone",
        subject=item.owner or item.path,
        evidence=(
            f"{site_relative(item.path)}{more} takes {site_relative(item.file)} from {VARIABLE}",
            "without the variable its import fails: no RPATH, RUNPATH or ld.so.cache entry leads there",
        ),
        remediation=_open_first(case, item.soname, item.file, item.owner),
    )
