"""An extension that was built for another torch, or for the other C++ string.

What it finds:
    Extension modules and libraries that ask for a symbol in torch's own namespaces (c10, at, torch, caffe2) that the
    installed torch does not export.

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

import re
from collections.abc import Iterator

from envdoctor.checks.case import Case
from envdoctor.checks.load_evidence import faults, held, named, others
from envdoctor.checks.remedies import restore_or
from envdoctor.model.finding import Finding, Remediation
from envdoctor.model.symbol_families import wanted_abi
from envdoctor.probes.interpreter import Interpreter
from envdoctor.probes.load_faults import Fault
from envdoctor.probes.symbols import Symbols
from envdoctor.probes.torch_build import TorchBuild

CODE = "ED309"
NAME = "foreign-torch-extension"
_NAMED_BUILD = re.compile(r"torch_?\d{2,3}")
AREA = "Shared libraries"
_ABIS = {"cxx11": "the new std::string (cxx11 ABI)", "pre-cxx11": "the old std::string (pre-cxx11 ABI)"}


def run(case: Case) -> Iterator[Finding]:
    """Yield one finding for each distribution with such an object."""
    groups: dict[str, list[Fault]] = {}
    for fault in faults(case, "torch"):
        groups.setdefault(fault.owner or fault.path, []).append(fault)
    for items in groups.values():
        yield _finding(case, items)


def _finding(case: Case, items: list[Fault]) -> Finding:
    fault = items[0]
    build = case.facts[TorchBuild]
    wants, has = wanted_abi(fault.name, fault.declaration), case.facts[Symbols].torch_abi
    other_abi = bool(wants and has and wants != has)
    built_for = f"a torch with {_ABIS[wants]}" if other_abi else "another torch"
    return Finding(
        code=CODE,
        name=NAME,
        # A file named after a torch is one of several builds, of which the package chooses; it has ways without any.
        severity="note" if all(_NAMED_BUILD.search(item.path.rpartition("/")[2]) for item in items) else "error",
        confidence="high",
        title=f"{named(fault)} was built for {built_for}; torch here is {build.version}",
        subject=fault.owner or fault.path,
        evidence=(
            f"the loader says: {fault.message}",
            f"the symbol is {fault.declaration}",
            *((f"this torch was compiled with {_ABIS[has]}",) if has else ()),
            f"torch's own files that have it: {held(fault.has_it)}" if fault.has_it else "no file of this torch has it",
            *others(items),
        ),
        remediation=_remedy(case, fault, build, wants=has or wants),
        symptom_of=(f"companion:{fault.owner}:torch", "shadow:torch", "version:torch", "torch-build", "dist:torch"),
    )


def _remedy(case: Case, fault: Fault, build: TorchBuild, *, wants: str) -> Remediation:
    python = "cp" + case.facts[Interpreter].minor.replace(".", "")
    torch = ".".join(build.version.partition("+")[0].split(".")[:2])
    cuda = f"CUDA {build.cuda_major}" if build.cuda_major else "no CUDA"
    abi = f", cxx11abi{'TRUE' if wants == 'cxx11' else 'FALSE'}" if wants else ""
    return restore_or(
        case,
        f"install the wheel of {fault.owner or 'it'} whose file name states torch {torch}, {cuda}{abi} and {python} "
        "(the index often has one build only; the project's releases have the others), or build it here with "
        "--no-build-isolation, or take the torch it was built for. Importing torch first changes nothing",
        [],
    )
