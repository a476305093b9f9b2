"""A RECORD row that leads out of the environment.

What it finds:
    RECORD rows whose path is absolute, climbs out with `..`, or goes through a folder that is a link out.

Why it matters:
    An uninstall deletes what RECORD lists: such a row makes it delete files that are not the distribution's. envdoctor
    never reads, hashes or removes them.

Example:
    A RECORD row `../../../../../home/me/.bashrc,sha256=…,120`.

Fix:
    Do not uninstall it with pip or uv. Rebuild the venv without it.
"""

from collections.abc import Iterator

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.remedies import restore_or
from envdoctor.model.finding import Finding
from envdoctor.model.wording import counted
from envdoctor.probes.venv.installed_files import InstalledFiles

CODE = "ED204"
NAME = "record-outside-environment"
AREA = "Installed files"


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for each distribution with such rows."""
    rows: dict[str, list[str]] = {}
    for owner, path in case.facts[InstalledFiles].outside:
        rows.setdefault(owner, []).append(path)
    for owner, paths in sorted(rows.items()):
        yield Finding(
            code=CODE,
            name=NAME,
            severity="warning",
            confidence="high",
            title=f"RECORD of {owner} lists {counted(len(paths), 'path')} outside the environment",
            subject=owner,
            evidence=tuple(repr(path) for path in sorted(paths)[:6]),
            remediation=restore_or(
                case,
                f"rebuild the venv without uninstalling {owner} from it: an older installer may delete those paths",
                [],
            ),
        )
