"""Packages without any metadata.

What it finds:
    The environment's own site-packages holds packages, and no dist-info folder at all.

Why it matters:
    Imports may still work, and nothing else does: importlib.metadata finds no version, so that what reads its own or
    another one's (transformers does) raises PackageNotFoundError; uv and pip take the environment for empty and install
    other versions over these files. Neither a file nor a requirement can be checked.

Example:
    `find / -name "*.dist-info" -exec rm -r {} +` in a Dockerfile, to make the image smaller.

Fix:
    Make the environment again from what it was made from; metadata cannot be written afterwards.
"""

from collections.abc import Iterator

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.remedies import locked_or
from envdoctor.model.finding import Finding
from envdoctor.model.wording import counted
from envdoctor.probes.venv.distributions import Distributions

CODE = "ED417"
NAME = "metadata-gone"
AREA = "Distributions"
_SHOWN = 8


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for an environment that has modules and no metadata."""
    bare = case.facts[Distributions].bare
    if not bare:
        return
    more = f" and {len(bare) - _SHOWN} more" if len(bare) > _SHOWN else ""
    yield Finding(
        code=CODE,
        name=NAME,
        severity="warning",
        confidence="high",
        title=f"site-packages holds {counted(len(bare), 'module')} and no metadata: what they are is not known",
        subject="site-packages",
        evidence=(
            f"{', '.join(bare[:_SHOWN])}{more}",
            "without a dist-info folder importlib.metadata finds no version, and uv and pip install over these files",
        ),
        remediation=locked_or(
            case,
            "Make the environment again, in an empty folder, from the requirements or the lock that it was made from",
            [],
        ),
    )
