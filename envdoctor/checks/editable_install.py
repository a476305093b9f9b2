"""A distribution that is imported from a source folder.

What it finds:
    Editable installs: their files lie in a working tree, outside the environment.

Why it matters:
    Nothing about them can be verified: RECORD lists a pointer, the code is whatever the folder holds today. Two
    fingerprints can be equal and the code different.

Example:
    `uv pip install -e ../trainer`.

Fix:
    For a run that must be repeatable, install a wheel of a commit.
"""

from collections.abc import Iterator

from envdoctor.checks.case import Case
from envdoctor.model.finding import Finding, Remediation
from envdoctor.model.wording import counted
from envdoctor.probes.distributions import Distributions

CODE = "ED412"
NAME = "editable-install"
AREA = "Distributions"


def run(case: Case) -> Iterator[Finding]:
    """Yield one note for all editable installs."""
    found = [item for item in case.facts[Distributions].items if item.editable and not item.shadowed]
    if found:
        yield Finding(
            code=CODE,
            name=NAME,
            severity="note",
            confidence="high",
            title=f"{counted(len(found), 'distribution', 'is', 'are')} imported from a source folder: "
            f"{', '.join(item.name for item in found)}",
            subject=", ".join(item.name for item in found),
            evidence=tuple(f"{item.name} {item.version}: {item.direct_url}" for item in found),
            remediation=Remediation(text="For a run that must be repeatable, install a wheel of a commit instead"),
        )
