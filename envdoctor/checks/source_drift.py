"""Training code that differs from the profile's.

What it finds:
    Files of the profile's `[sources]` that are missing or have another hash.

Why it matters:
    The profile's throughput was measured with that code.

Example:
    trainer/step/loss.py was edited since.

Fix:
    Look at the difference with git; nothing of it is touched here.
"""

from collections.abc import Iterator

from envdoctor.analysis.context import CheckContext, DoesNotApplyError
from envdoctor.model.finding import Finding, Remediation
from envdoctor.model.wording import counted
from envdoctor.probes.venv.training_sources import Sources

CODE = "ED801"
NAME = "source-drift"
AREA = "Sources"


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for all files that differ."""
    wanted = case.wanted().sources
    if not wanted:
        raise DoesNotApplyError("the profile names no sources")
    files = {item.path: item for item in case.facts[Sources].files}
    lines = []
    for path, digest in sorted(wanted.items()):
        item = files.get(path)
        if item is None or item.problem:
            lines.append(f"{path}: {item.problem if item else 'not read'}")
        elif item.sha256 != digest:
            lines.append(f"{path}: sha256 {item.sha256[:12]} instead of {digest[:12]}")
    if lines:
        yield Finding(
            code=CODE,
            name=NAME,
            severity="warning",
            confidence="high",
            title=f"{counted(len(lines), 'source file', 'differs', 'differ')} from the profile's",
            subject="sources",
            evidence=tuple(lines),
            remediation=Remediation(text="Compare with the commit the profile was measured at: `git diff`"),
        )
