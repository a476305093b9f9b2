"""A variable that puts other libraries in front of the environment's own.

What it finds:
    Elements of LD_LIBRARY_PATH that hold libraries the environment provides too; empty elements, which mean the current
    folder; elements whose copy of a system library (libstdc++) lacks what is asked of it; LD_PRELOAD files that do not
    exist or are empty; a CUDA_HOME, or an nvcc that only PATH leads to, of another CUDA major than torch's.

Why it matters:
    torch's own libraries have an RPATH and win; what they need in turn, and what cuDNN opens later, has a RUNPATH and
    loses to LD_LIBRARY_PATH. So the import works and the first convolution does not. Reinstalling changes nothing.

Example:
    `LD_LIBRARY_PATH=/usr/local/cuda-12.1/lib64:` - an older nvJitLink, and the current folder behind the last colon.

Fix:
    Start the trainer without the variable, or with the elements that are not in the way.
"""

import shlex
from collections.abc import Iterator, Sequence

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.variable_commands import without_preload
from envdoctor.model.finding import Finding, Remediation
from envdoctor.model.wording import counted
from envdoctor.probes.loading.libraries import Libraries
from envdoctor.probes.loading.load_faults import LoadFault
from envdoctor.probes.loading.symbols import Symbols
from envdoctor.probes.loading.torch_build import TorchBuild
from envdoctor.probes.machine.environment import Environment
from envdoctor.probes.machine.library_path import LibraryFolder, LibraryPath, Preload

CODE = "ED602"
NAME = "library-path-leak"
AREA = "Environment"
_SHOWN = 6
_VARIABLE = "LD_LIBRARY_PATH"


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for each variable that is in the way."""
    facts = case.facts[LibraryPath]
    shadowing = [folder for folder in facts.folders if folder.shadows and folder.element]
    if shadowing:
        yield _shadowing(case, facts, shadowing)
    yield from _unfit(case, facts, shadowing)
    empty = [folder for folder in facts.folders if not folder.element]
    if empty and not shadowing:
        yield _current_folder(facts, empty[0])
    unfit = [preload for preload in facts.preloads if preload.problem]
    if unfit:
        yield _preload(case, unfit)
    yield from _cuda_home(case, facts)


def _shadowing(case: CheckContext, facts: LibraryPath, folders: Sequence[LibraryFolder]) -> Finding:
    taken = _taken(case)
    first = folders[0]
    names = ", ".join(first.shadows[:3]) + (f" and {len(first.shadows) - 3} more" if len(first.shadows) > 3 else "")
    hit = [name for folder in folders for name in folder.shadows if name in taken]
    where = ", ".join(folder.element for folder in folders)
    title = (
        f"{hit[0]} is taken from {_VARIABLE} ({taken[hit[0]]}) instead of this environment"
        if hit
        else f"{_VARIABLE} puts {first.element} in front of this environment's {names}"
    )
    return Finding(
        code=CODE,
        name=NAME,
        severity="error" if hit else "warning",
        confidence="high" if hit else "medium",
        title=title,
        subject=where,
        evidence=tuple(
            f"{folder.element}: {counted(len(folder.shadows), 'file')} of the same name as this environment's, "
            f"first {', '.join(folder.shadows[:_SHOWN])}"
            for folder in folders
        )
        + (
            ("an empty element means the current folder",)
            if any(not folder.element for folder in facts.folders)
            else ()
        ),
        remediation=_without(facts, {folder.element for folder in folders}),
        causes=(
            f"path-variable:{_VARIABLE}",
            *(f"provider:{taken[name]}" for name in hit),
        ),
    )


def _unfit(case: CheckContext, facts: LibraryPath, told: Sequence[LibraryFolder]) -> Iterator[Finding]:
    """Yield one finding for the folders whose library, the system's by name, does not fit what is here."""
    symbols = case.facts.get(Symbols)
    by_file: dict[str, list[LoadFault]] = {}
    for fault in symbols.faults if symbols else ():
        if fault.provider_via == _VARIABLE:
            by_file.setdefault(fault.provider, []).append(fault)
    known = {folder.path.rstrip("/") for folder in told}
    by_file = {file: faults for file, faults in by_file.items() if file.rpartition("/")[0] not in known}
    if not by_file:
        return
    first, *_ = by_file
    name = first.rpartition("/")[2]
    folders = {file.rpartition("/")[0] for file in by_file}
    yield Finding(
        code=CODE,
        name=NAME,
        severity="error",
        confidence="high",
        title=f"{name} is taken from {_VARIABLE} ({first}) and lacks what this environment needs of it",
        subject=", ".join(sorted(folders)),
        evidence=tuple(_lacking(file, faults) for file, faults in by_file.items()),
        remediation=_without(facts, {folder.element for folder in facts.folders if folder.path.rstrip("/") in folders}),
        causes=(f"path-variable:{_VARIABLE}",),
    )


def _lacking(file: str, faults: Sequence[LoadFault]) -> str:
    names = list(dict.fromkeys(fault.declaration for fault in faults))
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    users = {fault.path or "import torch" for fault in faults}
    return f"{file} lacks {', '.join(names[:3])}{more}; asked for by {counted(len(users), 'load')} that fail"


def _taken(case: CheckContext) -> dict[str, str]:
    """Return soname -> path of what the import, or a later dlopen, takes through the variable."""
    libraries = case.facts.get(Libraries)
    providers = libraries.providers if libraries else ()
    return {item.soname: item.path for item in providers if item.found_via == _VARIABLE}


def _current_folder(facts: LibraryPath, folder: LibraryFolder) -> Finding:
    there = facts.current_folder_libraries
    return Finding(
        code=CODE,
        name=NAME,
        severity="warning" if there else "note",
        confidence="high",
        title=f"{_VARIABLE} has an empty element, which means the current folder"
        + (f": {', '.join(there[:3])} would be taken from it" if there else ""),
        subject=_VARIABLE,
        evidence=(f"{_VARIABLE}={':'.join(item.element for item in facts.folders)}", f"current folder: {folder.path}"),
        remediation=_without(facts, {""}),
        causes=(f"path-variable:{_VARIABLE}",),
    )


def _without(facts: LibraryPath, unwanted: set[str]) -> Remediation:
    kept = [folder.element for folder in facts.folders if folder.element and folder.element not in unwanted]
    return Remediation(
        text="Start without what is in the way; reinstalling changes nothing while the variable stands. An environment "
        "module or a conda hook may set it again at the next login",
        commands=(f"export {_VARIABLE}={shlex.quote(':'.join(kept))}" if kept else f"unset {_VARIABLE}",),
        safe=True,
    )


def _preload(case: CheckContext, unfit: Sequence[Preload]) -> Finding:
    return Finding(
        code=CODE,
        name=NAME,
        severity="warning",
        confidence="high",
        title=f"LD_PRELOAD names {unfit[0].element}, which {unfit[0].problem}",
        subject="LD_PRELOAD",
        evidence=tuple(
            f"{preload.element}: ld.so says so on stderr for every process and goes on without it" for preload in unfit
        ),
        remediation=Remediation(
            text="Leave it out, or name the intended file",
            commands=(without_preload(case, {preload.element for preload in unfit}),),
            safe=True,
        ),
    )


def _cuda_home(case: CheckContext, facts: LibraryPath) -> Iterator[Finding]:
    build = case.facts.get(TorchBuild)
    major = facts.cuda_home_version.partition(".")[0]
    if build is None or not build.cuda_major or not major or major == build.cuda_major:
        return
    by_path = facts.cuda_home_from == "PATH"
    what = f"the nvcc on PATH ({facts.cuda_home}/bin)" if by_path else facts.cuda_home_from
    yield Finding(
        code=CODE,
        name=NAME,
        severity="note",
        confidence="high",
        title=f"{what} is a CUDA {facts.cuda_home_version} toolkit; torch {build.version} is a CUDA "
        f"{build.cuda} build, and extensions compiled with it will be refused",
        subject="nvcc" if by_path else facts.cuda_home_from,
        evidence=(
            "CUDA_HOME and CUDA_PATH are not set" if by_path else f"{facts.cuda_home_from}={facts.cuda_home}",
            "torch.utils.cpp_extension compares the two majors",
        ),
        remediation=Remediation(
            text=f"Name a CUDA {build.cuda_major} toolkit (`export CUDA_HOME=...`) where extensions are compiled; "
            "wheels do not need one",
            commands=tuple(_without_toolkit(case, facts)),
            safe=True,
        ),
    )


def _without_toolkit(case: CheckContext, facts: LibraryPath) -> Iterator[str]:
    """Yield the line that takes the toolkit out; none where its folder is one of the system's."""
    if facts.cuda_home_from != "PATH":
        yield f"unset {facts.cuda_home_from}"
        return
    elements = (case.facts[Environment].value("PATH") or "").split(":")
    kept = [element for element in elements if element.rstrip("/") != f"{facts.cuda_home}/bin"]
    if facts.cuda_home not in ("", "/", "/usr", "/usr/local"):
        yield f"export PATH={shlex.quote(':'.join(kept))}"
