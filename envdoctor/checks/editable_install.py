"""A distribution that is imported from a source folder.

What it finds:
    Editable installs: their files lie in a working tree, outside the environment. It is an error when that folder is
    gone: then nothing of them can be imported, though pip and uv list them.

Why it matters:
    Nothing about them can be verified: RECORD lists a pointer, the code is whatever the folder holds today. Two
    fingerprints can be equal and the code different.

Example:
    `uv pip install -e ../trainer`.

Fix:
    For a run that must be repeatable, install a wheel of a commit.
"""

from collections.abc import Iterator, Sequence

from envdoctor.analysis.context import Case
from envdoctor.analysis.remedies import restore_or, uninstall_command
from envdoctor.model.finding import Finding, Remediation
from envdoctor.model.wording import counted
from envdoctor.probes.venv.distributions import Distribution, Distributions

CODE = "ED412"
NAME = "editable-install"
AREA = "Distributions"


def run(case: Case) -> Iterator[Finding]:
    """Yield one error for all whose source folder is gone, one note for all others."""
    editable = [item for item in case.facts[Distributions].items if item.editable and not item.shadowed]
    gone = [item for item in editable if item.source_gone]
    if gone:
        yield _gone(case, gone)
    found = [item for item in editable if not item.source_gone]
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


def _gone(case: Case, items: Sequence[Distribution]) -> Finding:
    names = ", ".join(item.name for item in items)
    which = "a source folder that is gone" if len(items) == 1 else "source folders that are gone"
    return Finding(
        code=CODE,
        name=NAME,
        severity="error",
        confidence="high",
        title=f"{names} cannot be imported: installed from {which}",
        subject=names,
        evidence=tuple(f"{item.name} {item.version}: {item.direct_url} does not exist" for item in items),
        remediation=restore_or(
            case,
            "put the folder back, or install from where it is now; if it is not needed any more, uninstall it",
            [uninstall_command(case, [item.name for item in items])],
        ),
        causes=tuple(f"dist:{item.name}" for item in items),
    )
