"""A library that an extension needs and no search path of it reaches.

What it finds:
    Extension modules (and libraries linked against torch or CUDA) that cannot be loaded after `import torch` for want
    of a library; packages with a build for each of several versions of a library (torchcodec for FFmpeg) of which none
    loads; and those that load only because LD_LIBRARY_PATH happens to lead to a library of this environment.
    An error is what importing the package certainly raises; a part of a package that cannot be loaded is a warning; of
    the system's libraries, which belong to optional parts as often as not, it is a warning where importing the package
    certainly raises and a note elsewhere.

Why it matters:
    The file is there, `pip check` is content, and it works in the one shell where a conda or module hook has set the
    variable. CUDA 13's wheels moved to `nvidia/cu13/lib`, so extensions with the old search path miss them. torch 2.15
    no longer requires cuRAND, which others took for granted.

Example:
    `libnvrtc.so.13: cannot open shared object file`, with `nvidia/cu13/lib/libnvrtc.so.13` of nvidia-cuda-nvrtc 13.0.88
    installed (fvdb-core issue 648).

Fix:
    Install what nothing brings. For what is there: a torch of the same CUDA major, imported first (2.9 or newer opens
    all of NVIDIA's wheels), or open the one library beforehand. Not LD_LIBRARY_PATH in the launch script: it shadows
    what it does not mean to.
"""

from collections.abc import Iterator

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.damage import site_relative
from envdoctor.analysis.load_evidence import VARIABLE, bound, faults, held, named, opens_its_own, others
from envdoctor.analysis.remedies import install_command, link_again
from envdoctor.catalog.cudalibs import expected_owner, folder_of, majors_of
from envdoctor.catalog.system_packages import ffmpeg_of, package_of
from envdoctor.model.finding import Finding, Remediation
from envdoctor.model.wording import counted
from envdoctor.probes.loading.load_faults import LoadFault
from envdoctor.probes.loading.symbols import Reached
from envdoctor.probes.loading.torch_build import TorchBuild
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.probes.venv.installed_files import InstalledFiles
from envdoctor.standards.need import parse_need

CODE = "ED307"
NAME = "library-not-searched"
AREA = "Shared libraries"
_SHOWN = 3


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for each distribution and kind of remedy."""
    groups: dict[tuple[str, str], list[LoadFault]] = {}
    torn, compiled = _without_source(case)
    for fault in faults(case, "reach"):
        kind = _kind(fault)
        # What opens it at run time, and what that opens before, stood in the package's missing files; what they have
        # compiled to is not read here, and may open before what is there to be opened.
        unknown = fault.owner in torn or (fault.owner in compiled and fault.has_it)
        if kind and (fault.opening == "at import" or not unknown):
            groups.setdefault((fault.owner or fault.path, kind), []).append(fault)
    for (_, kind), items in groups.items():
        if kind != "alternatives":
            yield _missing(case, items)
        elif len({item.name for item in items}) > 1:
            yield _none_fits(items)
    reached: dict[tuple[str, str], list[Reached]] = {}
    for item in bound(case).by_variable:
        reached.setdefault((item.owner or item.path, item.soname), []).append(item)
    for found in reached.values():
        yield _by_variable(case, found)


def _without_source(case: CheckContext) -> tuple[set[str], set[str]]:
    """Return the distributions of which Python files are missing: those without them, and with their bytecode alone."""
    files = case.facts.get(InstalledFiles)
    missing = [one for one in files.faults if one.kind == "missing" and one.path.endswith(".py")] if files else []
    return {one.owner for one in missing if not one.compiled}, {one.owner for one in missing if one.compiled}


def _kind(fault: LoadFault) -> str:
    """Return what a fault is told together with; empty for one that says nothing about the environment."""
    if opens_its_own(fault):
        return ""
    certain = fault.opening == "at import"
    if fault.family and not fault.module and not certain:
        # What its siblings need of each other says no more than what those need.
        # Another package's private copy (PyNvVideoCodec's libavutil.so.60) is of no use to it.
        return "" if any(item.owner == fault.owner for item in fault.has_it) else "alternatives"
    if majors_of(fault.name) and not fault.has_it:
        return "NVIDIA's"
    # A file that Python does not import is opened by code of its package, which may open others before: kernels of
    # CuTe are loaded by a runtime that brings the libraries they need.
    imported = fault.module or certain
    if fault.has_it:
        return f"reach {fault.name}" if imported or fault.links else ""
    return "system's" if imported else ""


def _missing(case: CheckContext, items: list[LoadFault]) -> Finding:
    fault = items[0]
    ours = bool(fault.has_it or majors_of(fault.name))
    certain = any(item.opening == "at import" for item in items)
    where = held(fault.has_it)
    names = list(dict.fromkeys(name for item in items for name in (item.name, *item.missing)))
    absent = [name for name in names if name == fault.name or majors_of(name) or not ours]
    return Finding(
        code=CODE,
        name=NAME,
        severity=("error" if certain else "warning") if ours else "warning" if certain else "note",
        confidence="high" if fault.module or certain else "medium",
        title=f"{named(fault)} cannot be loaded: {fault.message}",
        subject=fault.owner or fault.path,
        evidence=(
            *((f"needed by {site_relative(fault.requester)}",) if fault.requester else ()),
            _where(fault, where, absent),
            *_others(items),
            *((f"importing {fault.owner or 'it'} opens it, and lets the error through",) if certain else ()),
        ),
        remediation=_remedy(case, fault, absent),
        symptom_of=tuple(dict.fromkeys((*(f"soname:{item.name}" for item in items), f"build-of:{fault.owner}"))),
    )


def _where(fault: LoadFault, where: str, absent: list[str]) -> str:
    if fault.unlinked:
        return f"{fault.unlinked} is that library, and no link {fault.name} leads to it"
    if where:
        return f"{fault.name} is at {where}, where none of its search paths leads"
    return f"no distribution here brings {', '.join(absent)}"


def _others(items: list[LoadFault]) -> Iterator[str]:
    """Yield what fails for want of the same library, then what fails for want of others."""
    first = items[0]
    yield from others([item for item in items if item.name == first.name])
    rest = [item for item in items if item.name != first.name]
    yield from (f"{site_relative(item.path)} cannot be loaded: {item.message}" for item in rest[:_SHOWN])
    if len(rest) > _SHOWN:
        yield f"and {counted(len(rest) - _SHOWN, 'more file')} of it"


def _none_fits(items: list[LoadFault]) -> Finding:
    """Return the finding of a package that brings a file for each of several versions of a library it does not."""
    fault = items[0]
    wanted = list(dict.fromkeys(item.name for item in items))
    releases = sorted({release for name in wanted if (release := ffmpeg_of(name))})
    owner = f"{fault.owner} {fault.owner_version}".strip() or fault.path
    needs = f"FFmpeg {releases[0]} to {releases[-1]}" if releases else " or ".join(wanted)
    return Finding(
        code=CODE,
        name=NAME,
        severity="warning",
        confidence="high",
        title=f"{owner} needs {needs}, and none of its {len(items)} builds can be loaded here",
        subject=fault.owner or fault.path,
        evidence=(
            *(f"{site_relative(item.path)}: {item.message}" for item in items[:_SHOWN]),
            *((f"and {counted(len(items) - _SHOWN, 'more file')} of it",) if len(items) > _SHOWN else ()),
        ),
        remediation=Remediation(
            text=f"If {fault.owner or 'it'} is used, install "
            + ("FFmpeg" if releases else "one of them")
            + (_of_the_system(wanted) or " with the system's packages")
            + "; the others may stay missing"
        ),
    )


def _of_the_system(names: list[str]) -> str:
    packages = list(dict.fromkeys(package for name in names if (package := package_of(name))))
    return f" (Debian and Ubuntu: apt-get install {' '.join(packages)})" if packages else ""


def _remedy(case: CheckContext, fault: LoadFault, absent: list[str]) -> Remediation:
    if fault.unlinked:
        return _link(case, fault)
    if fault.has_it:
        return _open_first(case, fault.name, fault.has_it[0].path, fault.owner)
    if wheels := [name for name in absent if majors_of(name)]:
        return _install(case, fault, wheels)
    return Remediation(
        text=f"If {fault.owner or 'this module'} is used, install the system "
        + (f"packages that provide {', '.join(absent)}" if len(absent) > 1 else f"package that provides {absent[0]}")
        + _of_the_system(absent)
    )


def _link(case: CheckContext, fault: LoadFault) -> Remediation:
    full = fault.unlinked if fault.unlinked.startswith("/") else f"{case.facts.target}/{fault.unlinked}"
    return link_again(full, fault.name)


def _install(case: CheckContext, fault: LoadFault, sonames: list[str]) -> Remediation:
    """Return what brings NVIDIA's libraries: a command where they would be found after it, else what else to do."""
    owner, majors = fault.owner or "it", {name: _major(case, fault, name) for name in sonames}
    several = [expected_owner(name, major) or "" for name in sonames for major in majors_of(name) if not majors[name]]
    if several:
        choice = " or ".join(dict.fromkeys(several))
        return Remediation(text=f"Install {choice}, the one for the CUDA version that {owner} was built for")
    build = case.facts.get(TorchBuild)
    cuda = build.cuda_major if build is not None else ""
    owners = list(dict.fromkeys(expected_owner(name, major) or "" for name, major in majors.items()))
    lost = [name for name, major in majors.items() if not _would_be_found(case, fault, name, major)]
    if not lost:
        specs = [_as_asked(case, name) for name in owners]
        # torch pins what it brings. Without one NVIDIA's wheels need each other: nvidia-cufft-cu12 needs nvJitLink.
        command = install_command(case, specs, dependencies=not cuda)
        return Remediation(text=f"Install {_listed(owners)}", commands=(command,))
    other = (
        f"Install a build of {owner} for CUDA {cuda}"
        if cuda
        else f"Install torch for CUDA {majors[lost[0]]} and import it before {owner}"
    )
    return Remediation(text=f"{other}. Installing {_listed(owners)} is not enough: no search path leads there")


def _listed(names: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _major(case: CheckContext, fault: LoadFault, soname: str) -> str:
    """Return the CUDA major whose wheel is to bring it: torch's, else that of what is missing too; empty if unclear."""
    build, majors = case.facts.get(TorchBuild), majors_of(soname)
    if build is not None and build.cuda_major in majors:
        return build.cuda_major
    of_one = {found[0] for name in fault.missing if len(found := majors_of(name)) == 1}
    left = [major for major in majors if not of_one or major in of_one]
    return left[0] if len(left) == 1 else ""


def _would_be_found(case: CheckContext, fault: LoadFault, soname: str, major: str) -> bool:
    """Tell whether the library would be found where its distribution puts it.

    torch opens the libraries of its own CUDA major; the package may open it itself, or have a search path that leads
    to that folder. Otherwise installing it changes nothing.
    """
    build, folder = case.facts.get(TorchBuild), folder_of(soname, major)
    if fault.preloader or (build is not None and build.cuda_major == major):
        return True
    return any(site_relative(at) == folder for at in fault.searched)


def _as_asked(case: CheckContext, owner: str) -> tuple[str, str]:
    """Return (owner, version), the version as cuda-toolkit's extra for it asks, where that is installed."""
    for item in case.facts[Distributions].items:
        for line in item.requires if item.name == "cuda-toolkit" else ():
            need = parse_need(line) if line.startswith(owner) else None
            if need is not None and need.name == owner and need.specifier.startswith("=="):
                return owner, need.specifier.removeprefix("==")
    return owner, ""


def _open_first(case: CheckContext, soname: str, path: str, owner: str) -> Remediation:
    majors = majors_of(soname)
    build = case.facts.get(TorchBuild)
    full = path if path.startswith("/") else f"{case.facts.target}/{path}"
    opened = f'pen the library first: ctypes.CDLL("{full}", mode=ctypes.RTLD_GLOBAL)'
    # What is judged is the state after `import torch`, so that one of the same major has been imported already.
    fits = build is not None and build.present and build.cuda_major in (majors or (build.cuda_major,))
    cuda = f" (2.9 or newer, a CUDA {majors[0]} build)" if len(majors) == 1 else ""
    first = f"O{opened}" if fits or not majors else f"Import torch{cuda} before {owner or 'it'}, or o{opened}"
    return Remediation(
        text=f"{first}. A build of {owner or 'it'} whose RUNPATH leads there needs no such step. Do not put the folder "
        f"on {VARIABLE}",
        safe=True,
    )


def _by_variable(case: CheckContext, items: list[Reached]) -> Finding:
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
