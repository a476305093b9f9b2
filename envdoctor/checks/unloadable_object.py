"""A compiled file that the loader cannot map, although it is there and has the recorded size.

What it finds:
    Extension modules, and libraries that they need, that are not ELF objects, are cut short, or were built for another
    machine: told from their headers, with nothing opened by the loader.

Why it matters:
    Where the size is the recorded one, nothing but the import, or `check --deep`, shows it. A disk that failed, a copy
    that broke off in a preallocated file, or a folder taken from another machine leaves such files.

Example:
    `_multiarray_umath.cpython-312-x86_64-linux-gnu.so: invalid ELF header`: the file is all zeros.

Fix:
    Force-reinstall the distribution.
"""

from collections.abc import Iterator

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.damage import file_tokens, site_relative
from envdoctor.analysis.load_evidence import VARIABLE, faults
from envdoctor.analysis.remedies import reinstall_command, restore_or
from envdoctor.analysis.variable_commands import without_library_folder
from envdoctor.model.finding import Finding, Remediation
from envdoctor.probes.loading.load_faults import LoadFault

CODE = "ED311"
NAME = "unloadable-object"
AREA = "Shared libraries"
_SHOWN = 4


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for each distribution whose files cannot be mapped."""
    groups: dict[str, list[LoadFault]] = {}
    for fault in faults(case, "object"):
        groups.setdefault(fault.provider_owner or fault.provider, []).append(fault)
    for items in groups.values():
        yield _finding(case, items)


def _finding(case: CheckContext, items: list[LoadFault]) -> Finding:
    fault = items[0]
    files = list(dict.fromkeys(item.provider for item in items))
    owner = f" of {fault.provider_owner} {fault.provider_version}" if fault.provider_owner else ""
    more = f" and {len(files) - 1} more" if len(files) > 1 else ""
    users = [site_relative(item.path) for item in items if item.path != item.provider]
    return Finding(
        code=CODE,
        name=NAME,
        severity="error",
        confidence="high",
        title=f"{site_relative(files[0])}{more}{owner} cannot be loaded: {_reason(fault)}",
        subject=fault.provider_owner or fault.provider,
        evidence=(
            f"the loader says: {fault.message}",
            *(f"{site_relative(file)} too" for file in files[1:_SHOWN]),
            *((f"needed by {', '.join(users[:_SHOWN])}",) if users else ()),
        ),
        remediation=_remedy(case, fault),
        causes=tuple(token for file in files for token in file_tokens(file)),
        # The file's own fault, by size or by hash, is the cause where one is found.
        symptom_of=tuple(f"file:{file}" for file in files),
    )


def _reason(fault: LoadFault) -> str:
    if fault.kind in ("wrong machine", "not found"):
        return "it was built for another machine"
    return fault.message.partition(": ")[2]


def _remedy(case: CheckContext, fault: LoadFault) -> Remediation:
    if fault.provider_owner:
        command = reinstall_command(case, [(fault.provider_owner, fault.provider_version)])
        return restore_or(
            case, f"force-reinstall {fault.provider_owner}; `envdoctor check --deep` compares every byte", [command]
        )
    if fault.provider_via == VARIABLE:
        return Remediation(
            text=f"Start without {VARIABLE}; reinstalling changes nothing while it stands",
            commands=(without_library_folder(case, fault.provider),),
            safe=True,
        )
    return Remediation(text=f"{fault.provider} is of no distribution here: put the right file in its place")
