"""A library that does not come from the distribution the profile names.

What it finds:
    Sonames of the profile's `[libraries]` table that are provided by a file of another distribution, or by a file that
    no distribution owns.

Why it matters:
    A system library or one on LD_LIBRARY_PATH in front of the wheel's changes the stack without any package changing.

Example:
    `libnvJitLink.so.12` comes from `/usr/local/cuda-12.1/lib64`, the profile wants `nvidia-nvjitlink-cu12`.

Fix:
    Unset what puts the other file in front, or restore the profile.
"""

from collections.abc import Iterator

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.remedies import restore_or
from envdoctor.model.finding import Finding
from envdoctor.probes.loading.libraries import Libraries

CODE = "ED304"
NAME = "wrong-provider"
AREA = "Shared libraries"


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for each soname with another provider than the profile's."""
    expected = case.wanted().libraries
    for item in case.facts[Libraries].providers:
        wanted = expected.get(item.soname)
        if wanted is None or item.owner == wanted:
            continue
        actual = f"{item.owner} {item.owner_version}" if item.owner else f"{item.path}, which no distribution owns"
        yield Finding(
            code=CODE,
            name=NAME,
            severity="error",
            confidence="high",
            title=f"{item.soname} comes from {actual}; the profile wants {wanted}",
            subject=item.soname,
            evidence=(f"{item.path} is found via {item.found_via}",),
            remediation=restore_or(case, f"let {wanted} provide {item.soname}", []),
            symptom_of=(f"bytes:{item.path}", f"file:{item.path}"),
        )
