"""An interpreter that starts and sees none of the venv's packages.

What it finds:
    bin/python leads to another minor version than the one whose library folder holds the packages; the venv was made
    for another minor version in place, and the packages stayed in the old library folder; the library folder was
    renamed; or the folder has lost its pyvenv.cfg, so that Python takes bin/python for its base.

Why it matters:
    Nothing is damaged and every import fails: `ModuleNotFoundError: No module named 'torch'`. What is installed by that
    interpreter then lands in another folder, or in the base Python itself.

Example:
    `/usr/bin/python3` was 3.12 and is 3.13 since the upgrade; `.venv/lib/python3.12` holds the packages.

Fix:
    `uv venv --allow-existing --python 3.12 VENV` links the right interpreter and keeps the packages.
"""

import shlex
from collections.abc import Iterator

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.remedies import renew_command, restore_or
from envdoctor.model.finding import Finding
from envdoctor.model.verdict import BREAKS_IMPORT, STOPS_PYTHON
from envdoctor.model.wording import counted
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.probes.venv.interpreter import Interpreter

CODE = "ED105"
NAME = "packages-not-on-path"
AREA = "Interpreter"
# What `python -m venv` and virtualenv put into an empty one.
_INSTALLERS = frozenset(("pip", "setuptools", "wheel"))


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding when the packages lie where this interpreter does not look."""
    python = case.facts[Interpreter]
    holds, base = python.folder.removeprefix("python").rstrip("t"), ""
    if python.lost_config:
        title = f"this venv has lost its pyvenv.cfg: its interpreter runs as {python.resolved} and sees none of its "
        title += "packages"
        evidence = (f"{case.facts.target}/pyvenv.cfg does not exist", f"the packages are in {python.library}")
    elif python.is_venv and python.runs and python.runs != holds and python.runs == python.minor:
        yield _renamed(case, python)
        return
    elif python.is_venv and python.runs and python.runs != holds:
        title = f"bin/python is CPython {python.runs} and sees none of this venv's packages: they are for {holds}"
        evidence = (f"{python.executable} leads to {python.resolved}", f"the packages are in {python.library}")
    elif (left := _left_behind(case)) is not None:
        folder, count = left
        holds = folder.removeprefix("python")
        title = f"this venv is for CPython {python.minor} and has no packages: {counted(count, 'distribution')} of it "
        title += f"{'are' if count > 1 else 'is'} for {holds}"
        evidence = (
            f"{python.library}/site-packages holds no distribution but installers",
            f"{case.facts.target}/lib/{folder}/site-packages holds {count}",
        )
        base = holds
    else:
        return
    yield Finding(
        code=CODE,
        name=NAME,
        severity="error",
        confidence="high",
        title=title,
        subject=python.executable,
        evidence=evidence,
        remediation=restore_or(
            case,
            f"link the venv to a Python {holds} again; the packages stay",
            [renew_command(case, base)],
        ),
        causes=(STOPS_PYTHON, BREAKS_IMPORT),
    )


def _renamed(case: CheckContext, python: Interpreter) -> Finding:
    # Neither the link nor pyvenv.cfg has changed: what is named after another Python is the folder.
    right = f"{python.library.rpartition('/')[0]}/python{python.runs}"
    return Finding(
        code=CODE,
        name=NAME,
        severity="error",
        confidence="high",
        title=f"this venv is for CPython {python.runs}, and its library folder is called {python.folder}",
        subject=python.executable,
        evidence=(
            f"{python.executable} leads to {python.resolved}, and {python.version_from} says {python.version}",
            f"the packages are in {python.library}; there is no {right}",
        ),
        remediation=restore_or(
            case,
            "give the folder its name back; what was compiled in it is for this Python",
            [f"mv {shlex.quote(python.library)} {shlex.quote(right)}"],
        ),
        causes=(STOPS_PYTHON, BREAKS_IMPORT),
    )


def _left_behind(case: CheckContext) -> tuple[str, int] | None:
    """Return the library folder with the most packages, where the venv's own has none but what installs others."""
    others, installed = case.facts[Interpreter].other_libraries, case.facts.get(Distributions)
    if not others or installed is None:
        return None
    own = {item.name for item in installed.items if item.origin == "site-packages"}
    return max(others, key=lambda item: item[1]) if own <= _INSTALLERS else None
