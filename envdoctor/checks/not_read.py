"""Something of the environment that could not be read.

What it finds:
    RECORDs, METADATA and other files of dist-info folders that cannot be read or make no sense (no permission, a FIFO
    or a folder in a file's place, rows that are not rows), installed files that cannot be looked at, and with `--deep`
    those that could not be hashed.

Why it matters:
    Everything else in the report is said without them: what they hide cannot be determined from here.

Example:
    Row 12 of a RECORD is cut off in the middle; a site-packages folder belongs to another user.

Fix:
    Run envdoctor as the owner of the venv, or force-reinstall the distribution.
"""

from collections.abc import Iterator

from envdoctor.analysis.context import CheckContext, DoesNotApplyError
from envdoctor.analysis.remedies import reinstall_command, restore_or, unparsable_records
from envdoctor.checks.altered_contents import deep_files
from envdoctor.model.finding import Finding
from envdoctor.model.wording import counted
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.probes.venv.installed_files import InstalledFiles
from envdoctor.probes.venv.search_path import SearchPath

CODE = "ED208"
NAME = "unreadable-file"
AREA = "Installed files"
_SHOWN = 6


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for all of it."""
    gaps = list(_gaps(case))
    if not gaps:
        return
    more = (f"and {len(gaps) - _SHOWN} more",) if len(gaps) > _SHOWN else ()
    yield Finding(
        code=CODE,
        name=NAME,
        severity="warning",
        confidence="high",
        title=f"{counted(len(gaps), 'thing')} of the environment could not be read",
        subject="environment",
        evidence=(*gaps[:_SHOWN], *more),
        remediation=restore_or(
            case,
            "run envdoctor as the owner of the venv; force-reinstall what is damaged, or rebuild the venv",
            list(_reinstalls(case)),
        ),
    )


def _reinstalls(case: CheckContext) -> Iterator[str]:
    """Yield the command for distributions with a RECORD that no installer can read either."""
    items = [item for item in case.facts[Distributions].items if not item.shadowed]
    if pins := [(item.name, item.version) for item in items if unparsable_records(case, item.name)]:
        yield reinstall_command(case, pins)


def _gaps(case: CheckContext) -> Iterator[str]:
    yield from case.facts[SearchPath].unreadable
    yield from case.facts[Distributions].unreadable
    files = case.facts[InstalledFiles]
    yield from files.malformed
    yield from (f"{fault.owner}: {fault.path}: no access" for fault in files.faults if fault.kind == "unreadable")
    try:
        deep = deep_files(case)
    except DoesNotApplyError:
        return
    yield from (f"{item.owner}: {item.path}: {item.reason}" for item in deep.unverified)
