"""The venv's interpreter does not exist any more, or cannot be started.

What it finds:
    bin/python is missing, a dangling symlink, a folder, not executable or no program; the base's standard library lacks
    a file without which Python stops. As a note: `home` of pyvenv.cfg names a folder that is gone, and Python, which
    then goes by where bin/python leads to, starts all the same.

Why it matters:
    The folder looks like a venv and nothing in it can start: the base Python was upgraded or removed. Its packages are
    whole, and come back with an interpreter of the same minor version.

Example:
    bin/python -> /usr/local/python3.12.6/bin/python3.12, replaced by 3.12.7.

Fix:
    `uv venv --allow-existing --python 3.12 VENV` links it again and keeps the packages; `--clear` would delete them.
    A conda environment and a system prefix are not venvs: conda or the package manager reinstalls their Python. An
    interpreter that only lost its execute permission gets it back with chmod, whatever it is part of.
"""

import shlex
from collections.abc import Iterator

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.python_again import reinstall_python, renew_command
from envdoctor.analysis.remedies import restore_or
from envdoctor.model.finding import Finding
from envdoctor.model.fingerprint import MissingFactError
from envdoctor.model.verdict import BREAKS_IMPORT, STOPS_PYTHON
from envdoctor.probes.venv.conda import Conda
from envdoctor.probes.venv.interpreter import Interpreter

CODE = "ED101"
NAME = "missing-interpreter"
AREA = "Interpreter"


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield an error when the interpreter cannot start, or a note when only pyvenv.cfg is out of date."""
    python = case.facts[Interpreter]
    if python.barred:
        raise MissingFactError(Interpreter.__name__, python.barred)
    stale = (f"pyvenv.cfg: home = {python.home}, which does not exist",) if _home_is_gone(python) else ()
    copied = python.resolved.startswith(f"{case.facts.target}/")
    broken = tuple(_broken(python)) or (stale if copied else ())
    if broken:
        yield Finding(
            code=CODE,
            name=NAME,
            severity="error",
            # A copied interpreter may still find the library of the folder it was built for.
            confidence="medium" if broken == stale else "high",
            title=f"the interpreter of this {'venv' if _is_venv(python) else 'prefix'} cannot start",
            subject=python.executable,
            evidence=tuple(dict.fromkeys((*broken, *stale))),
            remediation=restore_or(case, *_remedy(case)),
            causes=(STOPS_PYTHON, BREAKS_IMPORT),
        )
    elif stale:
        yield Finding(
            code=CODE,
            name=NAME,
            severity="note",
            confidence="high",
            title="pyvenv.cfg names a base folder that is gone; the interpreter starts all the same",
            subject=python.executable,
            evidence=(*stale, f"{python.executable} leads to {python.resolved}, and Python goes by that"),
            remediation=restore_or(case, "write pyvenv.cfg again; the packages stay", [renew_command(case)]),
        )


def _is_venv(python: Interpreter) -> bool:
    return python.is_venv or python.lost_config


def _home_is_gone(python: Interpreter) -> bool:
    return bool(python.home) and not python.home_exists


def _broken(python: Interpreter) -> Iterator[str]:
    if not python.resolved:
        yield f"{python.executable} does not lead to a file"
    elif python.problem:
        yield f"{python.executable} {python.problem}"
    elif python.lacking:
        yield from (f"{path} is missing: no Python starts without it" for path in python.lacking)


def _remedy(case: CheckContext) -> tuple[str, list[str]]:
    python = case.facts[Interpreter]
    version = python.folder.removeprefix("python")
    executable = shlex.quote(python.executable)
    if python.problem.startswith("may not be executed"):
        return "let it be executed again", [f"chmod a+x {shlex.quote(python.resolved)}"]
    if not _is_venv(python):
        return reinstall_python(case, case.facts.target)
    if python.lacking and not python.problem and python.resolved:
        conda = case.facts.get(Conda)
        if conda is not None and conda.base:
            return reinstall_python(case, conda.base)
        text = f"the base Python itself is damaged: reinstall it, or move the venv to a Python {version} of uv's own"
        return text, [
            f"uv python install --reinstall {version}",
            renew_command(case, version, "--managed-python "),
        ]
    keeps = "link the interpreter again; the packages stay"
    if python.problem == "is a folder":
        return f"{keeps}. The folder in its place is set aside", [
            f"mv {executable} {executable}.aside",
            renew_command(case),
        ]
    return keeps, [renew_command(case)]
