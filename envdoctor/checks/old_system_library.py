"""A wheel that was built for a newer glibc or libstdc++ than this host has.

What it finds:
    Versions (GLIBC_2.38, GLIBCXX_3.4.32, CXXABI_...) that `import torch` or an extension module asks of the C or C++
    runtime, and the runtime that the loader takes does not define.

Why it matters:
    The installer believes the wheel's tag, which local builds and repaired wheels state wrongly; the loader does not.
    glibc cannot be fixed inside of a venv.

Example:
    `/lib/x86_64-linux-gnu/libc.so.6: version 'GLIBC_2.38' not found` on Debian 12, which has 2.36.

Fix:
    Install a build for this glibc (a lower manylinux tag) or build it here; an old libstdc++ that a variable puts in
    front goes with that variable. Where a newer one is in a searched folder and only its link is missing (a conda
    environment's libstdc++.so.6), make the link again.
"""

from collections.abc import Iterator

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.damage import site_relative
from envdoctor.analysis.load_evidence import VARIABLE, faults, named, others, provider_tokens
from envdoctor.analysis.remedies import link_again
from envdoctor.analysis.variable_commands import without_library_folder
from envdoctor.model.finding import Finding, Remediation
from envdoctor.model.verdict import BREAKS_IMPORT
from envdoctor.probes.loading.load_faults import LoadFault

CODE = "ED310"
NAME = "system-library-too-old"
AREA = "Shared libraries"


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for each distribution and version that is asked for."""
    groups: dict[tuple[str, str], list[LoadFault]] = {}
    for fault in faults(case, "host"):
        groups.setdefault((fault.owner, fault.name), []).append(fault)
    for items in groups.values():
        yield _finding(case, items)


def _finding(case: CheckContext, items: list[LoadFault]) -> Finding:
    fault = items[0]
    who = named(fault) if fault.path else "torch"
    library = fault.provider.rpartition("/")[2]
    has = f"; {library} here has {fault.provider_offers} at most" if fault.provider_offers else ""
    return Finding(
        code=CODE,
        name=NAME,
        severity="error",
        confidence="high",
        title=f"{who} needs {fault.name}{has}",
        subject=fault.owner or "torch",
        evidence=(
            f"the loader says: {fault.message}",
            f"{site_relative(fault.provider)} is found via {fault.provider_via}",
            *((f"{fault.unlinked} has that version, and no link {library} leads to it",) if fault.unlinked else ()),
            *others(items),
        ),
        remediation=_remedy(case, fault),
        causes=(f"soname:{fault.provider}", *(() if fault.path else (BREAKS_IMPORT,))),
        symptom_of=tuple(token for token in provider_tokens(fault) if token.startswith("path-variable:")),
    )


def _remedy(case: CheckContext, fault: LoadFault) -> Remediation:
    if fault.provider_via == VARIABLE:
        return Remediation(
            text=f"Start without {VARIABLE}, which puts this library in front of the system's own",
            commands=(without_library_folder(case, fault.provider),),
            safe=True,
        )
    if fault.unlinked:
        full = fault.unlinked if fault.unlinked.startswith("/") else f"{case.facts.target}/{fault.unlinked}"
        return link_again(full, fault.provider.rpartition("/")[2])
    owner = fault.owner or fault.requester_owner or "torch"
    return Remediation(
        text=f"Install a build of {owner} for an older system (a wheel with a lower manylinux tag, or one built here), "
        "or use an image with a newer one. Copying a newer library into the venv does not help"
    )
