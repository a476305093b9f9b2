"""A symbol, or a version of one, that the library in place does not have.

What it finds:
    Undefined symbols that `import torch`, or an extension module imported after it, asks of a library, and the file
    the loader takes for that library lacks. Told from the symbol tables and version sections, with nothing run.

Why it matters:
    Every file is there and every requirement is met by name; the import raises all the same. The reason is always two
    builds that do not belong together: one overwrote the other, or a variable put another in front.

Example:
    `undefined symbol: ncclCommResume`: torch 2.13 is linked against NCCL 2.29.7, and the bytes at
    `nvidia/nccl/lib/libnccl.so.2` are those of `nvidia-nccl-cu12` 2.29.3.

Fix:
    Put back the library that the asking object was built with; where a finding above this one explains it, as that
    finding says.
"""

from collections.abc import Iterator

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.damage import site_relative
from envdoctor.analysis.load_evidence import VARIABLE, faults, held, named, others, provider_tokens
from envdoctor.analysis.remedies import reinstall_command, restore_or
from envdoctor.analysis.variable_commands import without_library_folder
from envdoctor.model.finding import Finding, Remediation
from envdoctor.model.verdict import BREAKS_IMPORT
from envdoctor.probes.loading.load_faults import LoadFault
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.standards.requirements import pinned_version

CODE = "ED305"
NAME = "undefined-symbol"
AREA = "Shared libraries"
_OF_PYTHON = ("Py", "_Py")


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for each symbol and asking object of `import torch`, one for each of a distribution."""
    groups: dict[tuple[str, str, str], list[LoadFault]] = {}
    for fault in faults(case, "symbol"):
        # A symbol that another object of the same distribution has is a matter of which it opens first.
        if not fault.provider and fault.owner and fault.owner in {holder.owner for holder in fault.has_it}:
            continue
        groups.setdefault((fault.owner, fault.name, fault.requester if not fault.path else ""), []).append(fault)
    for items in groups.values():
        yield _finding(case, items)


def _finding(case: CheckContext, items: list[LoadFault]) -> Finding:
    fault = items[0]
    # Told from the files alone, this one may well work: its package opens the holder for all to see before it.
    unlinked = bool(fault.path and fault.has_it and not fault.provider)
    if unlinked:
        title = f"{named(fault)} is not linked against {site_relative(fault.has_it[0].path)}, whose symbols it needs"
    elif fault.path:
        title = f"{named(fault)} cannot be imported: {_problem(fault)}"
    else:
        title = f"`import torch` fails: {fault.message}" if fault.first else f"and then: {fault.message}"
    return Finding(
        code=CODE,
        name=NAME,
        severity="note" if unlinked else "error" if fault.provider or not fault.path else "warning",
        confidence="high" if fault.provider else "medium",
        title=title,
        subject=fault.name,
        evidence=(*_evidence(fault), *others(items)),
        remediation=_opened_before(fault) if unlinked else _remedy(case, fault),
        causes=() if fault.path else (BREAKS_IMPORT,),
        # Another Python under the venv lacks what its extension modules ask of Python itself.
        symptom_of=(*provider_tokens(fault), *(("interpreter",) if fault.name.startswith(_OF_PYTHON) else ())),
    )


def _opened_before(fault: LoadFault) -> Remediation:
    holder = fault.has_it[0]
    return Remediation(
        text=f"Nothing is damaged: it can be imported once something has opened {site_relative(holder.path)} with "
        f"RTLD_GLOBAL, as {fault.owner or 'its package'} may do itself where it needs it",
        safe=True,
    )


def _problem(fault: LoadFault) -> str:
    if fault.kind != "undefined symbol":
        return f"{site_relative(fault.provider)} has no version {fault.name}"
    return f"undefined symbol {fault.declaration}" + (f", version {fault.version}" if fault.version else "")


def _evidence(fault: LoadFault) -> Iterator[str]:
    if fault.path:
        yield f"the loader says: {fault.message}"
    asking = site_relative(fault.requester or fault.path)
    yield f"{asking} asks for it" + (f" ({fault.requester_owner})" if fault.requester_owner else "")
    if fault.provider:
        owner = f"{fault.provider_owner} {fault.provider_version}" if fault.provider_owner else "no distribution"
        yield f"{site_relative(fault.provider)} lacks it: found via {fault.provider_via}, of {owner}"
    yield f"has it: {held(fault.has_it)}" if fault.has_it else "no other file of this environment has it"


def _remedy(case: CheckContext, fault: LoadFault) -> Remediation:
    if fault.provider_via == VARIABLE:
        return Remediation(
            text=f"Start without {VARIABLE}; reinstalling changes nothing while it stands",
            commands=(without_library_folder(case, fault.provider),),
            safe=True,
        )
    name = fault.provider_owner
    if not name and fault.owner and fault.name.startswith(_OF_PYTHON):
        command = reinstall_command(case, [(fault.owner, fault.owner_version)])
        text = f"{fault.owner} was built for another Python; force-reinstall it with this interpreter"
        return restore_or(case, text, [command])
    if not name:
        lacking = site_relative(fault.provider) or "the library in place"
        return restore_or(case, f"{lacking} is not the build that was linked against; install the one that was", [])
    torch = case.facts[Distributions].active("torch")
    pinned = case.pins()
    version = pinned[name].version if name in pinned else pinned_version(torch.requires if torch else (), name)
    if not version:
        return restore_or(
            case, f"install the version of {name} that {fault.requester_owner or 'it'} was built with", []
        )
    command = reinstall_command(case, [(name, version)])
    return restore_or(case, f"force-reinstall {name} {version}", [command])
