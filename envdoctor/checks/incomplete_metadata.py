"""A distribution whose own records are incomplete.

What it finds:
    dist-info folders of the venv without METADATA or without RECORD, where no complete one of the same name stands
    beside them.

Why it matters:
    Without RECORD nobody knows which files belong to it: they cannot be verified, and an upgrade leaves the old ones
    behind. Without METADATA `importlib.metadata.version()` returns None. An install killed half-way leaves either.

Example:
    A killed `uv pip sync` left `torch-2.10.0.dist-info` without a RECORD.

Fix:
    Reinstall the distribution by force.
"""

from collections.abc import Iterator

from envdoctor.checks.case import Case
from envdoctor.checks.remedies import reinstall_command, restore_or
from envdoctor.model.finding import Finding
from envdoctor.probes.distributions import Distribution, Distributions
from envdoctor.probes.interpreter import Interpreter

CODE = "ED205"
NAME = "incomplete-metadata"
AREA = "Installed files"


def run(case: Case) -> Iterator[Finding]:
    """Yield one finding for each incomplete distribution of a venv; system packages come without RECORD by design."""
    if not case.facts[Interpreter].is_venv:
        return
    items = case.facts[Distributions].items
    for item in items:
        own = item.origin == "site-packages" and item.folder.endswith(".dist-info")
        if own and not item.shadowed and not (item.has_metadata and item.has_record):
            yield _finding(case, item)


def _finding(case: Case, item: Distribution) -> Finding:
    lacking = [name for name, there in (("METADATA", item.has_metadata), ("RECORD", item.has_record)) if not there]
    shown = f"{item.name} {item.version}".strip()
    return Finding(
        code=CODE,
        name=NAME,
        severity="error",
        confidence="high",
        title=f"{shown} was installed incompletely: its dist-info has no {' and no '.join(lacking)}",
        subject=item.name,
        evidence=(f"{item.site}/{item.folder}",),
        remediation=restore_or(
            case,
            f"reinstall {item.name} by force; what it should hold cannot be told from here",
            [reinstall_command(case, [(item.name, item.version)])],
        ),
        causes=(f"dist:{item.name}",),
    )
