"""An extension that was built for another torch, or for the other C++ string.

What it finds:
    Extension modules and libraries that ask for a symbol in torch's own namespaces (c10, at, torch, caffe2), or of its
    C interface (aoti_torch_, torch_), that the installed torch does not export, or that need a library which only
    another build of torch has (libc10_cuda.so beside a CPU build). A package that brings a file for each of several
    torches, none of which this one can load, is worth a note. A warning where the package's own code catches it.

Why it matters:
    torch's C++ interface is not stable: a wheel fits one torch minor version, one CUDA and one std::string. Metadata
    asks for `torch` and is content. Imported before torch, such a module even names another error (libc10.so not
    found), which says nothing but that torch was not imported first.

Example:
    `flash_attn_2_cuda...so: undefined symbol: _ZN3c105ErrorC2ENS_14SourceLocationESs`: built for a torch with the old
    std::string; torch 2.7.0+cu128 has the new one (Dao-AILab/flash-attention issue 1644).

Fix:
    Install the wheel whose file name states this torch, CUDA, C++ ABI and Python, or build it against this torch.
"""

from collections.abc import Iterator

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.kept_torch import another_build
from envdoctor.analysis.load_evidence import OF_TORCH, faults, named, others
from envdoctor.analysis.remedies import install_line, restore_or, unless_outside
from envdoctor.catalog.symbol_families import wanted_abi
from envdoctor.model.finding import Finding, Remediation
from envdoctor.model.pattern import pattern
from envdoctor.probes.loading.load_faults import LoadFault
from envdoctor.probes.loading.symbols import Symbols
from envdoctor.probes.loading.torch_build import TorchBuild
from envdoctor.probes.venv.interpreter import Interpreter

CODE = "ED309"
NAME = "foreign-torch-extension"
AREA = "Shared libraries"
_NAMED_BUILD = pattern(r"torch_?(?P<major>[12])[._]?(?P<minor>\d{1,2})(?!\d)")
_KINDS = {"cuda": "CUDA", "hip": "ROCm", "xpu": "XPU"}
_STATED_CUDA = pattern(r"torch (?P<version>[\d.]+)\+(?P<cuda>cu\d+)$")
_ABIS = {"cxx11": "the new std::string (cxx11 ABI)", "pre-cxx11": "the old std::string (pre-cxx11 ABI)"}


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for each distribution with such an object."""
    groups: dict[str, list[LoadFault]] = {}
    for fault in faults(case, "torch"):
        groups.setdefault(fault.owner or fault.path, []).append(fault)
    for items in groups.values():
        built_for = {_series(item.path) for item in items}
        if "" in built_for or _of(case.facts[TorchBuild]) in built_for:
            yield _finding(case, items)
        else:
            yield _one_for_each(case, items, sorted(built_for, key=lambda text: int(text.partition(".")[2])))
    builds: dict[str, list[LoadFault]] = {}
    for fault in faults(case, "build"):
        builds.setdefault(fault.owner or fault.path, []).append(fault)
    for items in builds.values():
        yield _of_another_kind(case, items)


def _of(build: TorchBuild) -> str:
    """Return "2.11", the series of a torch."""
    return ".".join(build.version.partition("+")[0].split(".")[:2])


def _series(path: str) -> str:
    """Return the torch that a file is named after ("2.11" of lib_torch211.so), or empty."""
    match = _NAMED_BUILD.search(path.rpartition("/")[2])
    return f"{match['major']}.{match['minor']}" if match else ""


def _one_for_each(case: CheckContext, items: list[LoadFault], built_for: list[str]) -> Finding:
    """Return the finding of a package that brings a file for each of several torches and opens the one that fits."""
    owner = f"{items[0].owner} {items[0].owner_version}".strip() or items[0].path
    # One that brings a file for each torch has a way for a torch without one; of a lone build that is not known.
    alone = len(built_for) == 1
    return Finding(
        code=CODE,
        name=NAME,
        severity="warning" if alone else "note",
        confidence="medium" if alone else "high",
        title=f"{owner} was built for torch {', '.join(built_for)}, and torch {case.facts[TorchBuild].version} "
        + ("cannot load it" if alone else "can load none of its builds"),
        subject=items[0].owner or items[0].path,
        evidence=(f"the loader says: {items[0].message}", *others(items)),
        remediation=Remediation(
            text="The files are named after the torch that each is for, and the package chooses one at run time: what "
            "it does without one is for its documentation to say. A newer version may bring a build for this torch"
        ),
        symptom_of=(f"companion:{items[0].owner}:torch", "shadow:torch", "version:torch", "torch-build", "dist:torch"),
    )


def _of_another_kind(case: CheckContext, items: list[LoadFault]) -> Finding:
    """Return the finding of an extension that needs libraries which only other builds of torch have."""
    fault = items[0]
    build = case.facts[TorchBuild]
    names = list(dict.fromkeys(name for name in (fault.name, *fault.missing) if OF_TORCH.fullmatch(name)))
    kinds = {_KINDS[kind] for name in names if (match := OF_TORCH.fullmatch(name)) and (kind := match["kind"])}
    kind = f"a {' and '.join(sorted(kinds))} build of torch" if kinds else "another build of torch"
    named_here = f"{build.version}" + ("" if build.cuda or build.hip else ", a CPU build")
    parts = " and ".join(names or [fault.name])
    return Finding(
        code=CODE,
        name=NAME,
        severity="warning" if fault.opening == "caught" else "error",
        confidence="high",
        title=f"{named(fault)} was built for {kind}; torch here is {named_here}",
        subject=fault.owner or fault.path,
        evidence=(
            f"it needs {parts}, which this torch does not have",
            f"the loader says: {fault.message}",
            *(
                (f"cpp_lib.json beside it says that it was built for {fault.stated_build}",)
                if fault.stated_build
                else ()
            ),
            *others(items),
        ),
        remediation=_other_build(case, fault, build),
        symptom_of=(f"companion:{fault.owner}:torch", "shadow:torch", "version:torch", "torch-build", "dist:torch"),
    )


def _other_build(case: CheckContext, fault: LoadFault, build: TorchBuild) -> Remediation:
    who = fault.owner or "it"
    stated = _STATED_CUDA.search(fault.stated_build)
    text = (
        f"install the build of torch that {who} was built for, or a build of {who} for this torch; no package of the "
        "system has these libraries"
    )
    if build.cuda or stated is None:
        return restore_or(case, text, [])
    names, words = another_build(case, stated["version"], stated["cuda"])
    return unless_outside(case, names, restore_or(case, text, [install_line(case, names, words)]))


def _finding(case: CheckContext, items: list[LoadFault]) -> Finding:
    fault = items[0]
    build = case.facts[TorchBuild]
    wants, has = wanted_abi(fault.name, fault.declaration), case.facts[Symbols].torch_abi
    other_abi = bool(wants and has and wants != has)
    built_for = f"a torch with {_ABIS[wants]}" if other_abi else "another torch"
    return Finding(
        code=CODE,
        name=NAME,
        severity="warning" if fault.opening == "caught" else "error",
        confidence="high",
        title=f"{named(fault)} was built for {built_for}; torch here is {build.version}",
        subject=fault.owner or fault.path,
        evidence=(
            f"the loader says: {fault.message}",
            f"the symbol is {fault.declaration}",
            *((f"this torch was compiled with {_ABIS[has]}",) if has else ()),
            "no file of this torch has it",
            *others(items),
        ),
        remediation=_remedy(case, fault, build, wants=has or wants),
        symptom_of=(f"companion:{fault.owner}:torch", "shadow:torch", "version:torch", "torch-build", "dist:torch"),
    )


def _remedy(case: CheckContext, fault: LoadFault, build: TorchBuild, *, wants: str) -> Remediation:
    python = "cp" + case.facts[Interpreter].minor.replace(".", "")
    torch = _of(build)
    cuda = f"CUDA {build.cuda_major}" if build.cuda_major else "no CUDA"
    abi = f", cxx11abi{'TRUE' if wants == 'cxx11' else 'FALSE'}" if wants else ""
    return restore_or(
        case,
        f"install the wheel of {fault.owner or 'it'} whose file name states torch {torch}, {cuda}{abi} and {python} "
        "(the index often has one build only; the project's releases have the others), or build it here with "
        "--no-build-isolation, or take the torch it was built for. Importing torch first changes nothing",
        [],
    )
