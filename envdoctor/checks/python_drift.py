"""Another Python than the profile's.

What it finds:
    The environment's Python minor version is none of those the profile names.

Why it matters:
    Compiled wheels are tied to it; the lock's hashes are for that one.

Example:
    CPython 3.11, the profile wants 3.12.

Fix:
    Rebuild the venv with the right interpreter: `envdoctor restore --profile NAME`.
"""

from collections.abc import Iterator

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.remedies import restore_or
from envdoctor.model.finding import Finding
from envdoctor.probes.venv.interpreter import Interpreter

CODE = "ED102"
NAME = "python-drift"
AREA = "Interpreter"


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding when the minor version differs."""
    wanted = case.wanted().python.versions
    python = case.facts[Interpreter]
    if not wanted or python.minor in wanted:
        return
    yield Finding(
        code=CODE,
        name=NAME,
        severity="error",
        confidence="high",
        title=f"the interpreter is CPython {python.version}; the profile wants {' or '.join(wanted)}",
        subject="python",
        evidence=(f"{python.executable}: version read from {python.version_from}",),
        remediation=restore_or(case, f"rebuild the venv with Python {wanted[0]}", []),
        causes=("python-version",),
        symptom_of=("another-stack",),
    )
