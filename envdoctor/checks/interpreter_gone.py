"""The venv's interpreter does not exist any more.

What it finds:
    bin/python is missing or a dangling symlink, or `home` of pyvenv.cfg names a folder that is gone.

Why it matters:
    The folder looks like a venv and nothing in it can start: the base Python was upgraded or removed.

Example:
    bin/python -> /usr/local/python3.12.6/bin/python3.12, replaced by 3.12.7.

Fix:
    Nothing in the venv can be repaired; rebuild it.
"""

from collections.abc import Iterator

from envdoctor.checks.case import Case
from envdoctor.checks.remedies import restore_or
from envdoctor.model.finding import Finding
from envdoctor.model.verdict import BREAKS_IMPORT
from envdoctor.probes.interpreter import Interpreter

CODE = "ED101"
NAME = "interpreter-gone"
AREA = "Interpreter"


def run(case: Case) -> Iterator[Finding]:
    """Yield one finding when the interpreter cannot start."""
    python = case.facts[Interpreter]
    broken = [f"{python.executable} does not lead to a file"] if not python.resolved else []
    if python.home and not python.home_exists:
        broken.append(f"pyvenv.cfg: home = {python.home}, which does not exist")
    if not broken:
        return
    yield Finding(
        code=CODE,
        name=NAME,
        severity="error",
        confidence="high",
        title="the interpreter of this venv cannot start",
        subject=python.executable,
        evidence=tuple(broken),
        remediation=restore_or(
            case,
            f"rebuild the venv: create it anew for Python {python.minor} and install into it again",
            [f"uv venv --clear --python {python.minor} {case.prefix}"],
        ),
        causes=("interpreter", BREAKS_IMPORT),
    )
