"""A folder of other packages on sys.path.

What it finds:
    Distributions that come from PYTHONPATH or, in a venv that lets them in, from the user site; PYTHONHOME. What was
    built for another Python and would be imported from there is an error, also where a .pth file adds the folder; one
    for this Python is there on purpose (pipx shares pip so).

Why it matters:
    What they bring is imported wherever the venv lacks it, so the run depends on who starts it. What shadows
    the venv's own modules is reported by shadowed-module.

Example:
    PYTHONPATH=~/.local/lib/python3.12/site-packages adds 40 distributions.

Fix:
    Unset PYTHONPATH, set PYTHONNOUSERSITE=1, delete the folder's line in the .pth file.
"""

import re
import shlex
from collections.abc import Iterator

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.variable_commands import leave_out_command
from envdoctor.model.finding import Finding, Remediation, Severity
from envdoctor.model.wording import counted
from envdoctor.probes.loading.extension_modules import ExtensionModules, ForeignExtension
from envdoctor.probes.machine.environment import Environment
from envdoctor.probes.venv.distributions import Distribution, Distributions
from envdoctor.probes.venv.interpreter import Interpreter
from envdoctor.probes.venv.search_path import SearchPath
from envdoctor.probes.venv.shadowing import Shadowing

CODE = "ED603"
NAME = "import-path-leak"
AREA = "Environment"
_SHOWN = 8


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for each leaked folder that shadows nothing, one for the user site, one for PYTHONHOME."""
    told = {shadow.front for shadow in case.facts[Shadowing].shadows}
    by_folder: dict[tuple[str, str], list[Distribution]] = {}
    for item in case.facts[Distributions].items:
        if _is_leaked(item) and item.site not in told and not item.shadowed:
            by_folder.setdefault((item.origin, item.site), []).append(item)
    extensions = case.facts.get(ExtensionModules)
    for (origin, site), items in by_folder.items():
        names = {item.name for item in items}
        foreign = [one for one in (extensions.foreign if extensions else ()) if one.owner in names and not one.beside]
        if foreign or not origin.endswith(".pth"):
            yield _leak(case, origin, site, items, foreign)
    yield from _python_home(case)


def _is_leaked(item: Distribution) -> bool:
    if item.origin in ("PYTHONPATH", "user site"):
        return True
    # An editable install's source folder has an egg-info at most.
    added = item.origin.endswith(".pth") and not item.origin.startswith("__editable__")
    return added and item.folder.endswith(".dist-info") and not item.editable


def _leak(
    case: CheckContext, origin: str, site: str, items: list[Distribution], foreign: list[ForeignExtension]
) -> Finding:
    python = case.facts[Interpreter]
    # The user site of a venv with system packages is let in by that choice, though rarely meant.
    chosen = origin == "user site" and case.profile is None
    severity: Severity = "error" if foreign else "note" if chosen else "warning"
    listed = ", ".join(item.name for item in items[:_SHOWN]) + (" ..." if len(items) > _SHOWN else "")
    return Finding(
        code=CODE,
        name=NAME,
        severity=severity,
        confidence="high",
        title=f"{counted(len(items), 'distribution', 'comes', 'come')} from {site} ({origin})"
        + (f", built for {foreign[0].tag}" if foreign else ""),
        subject=site,
        evidence=(listed, *(f"CPython {python.minor} cannot import {one.path}" for one in foreign[:1])),
        remediation=_leave_out(case, origin, site),
        causes=(f"leak-folder:{site}", *(f"leak:{item.name}" for item in items)),
    )


def _leave_out(case: CheckContext, origin: str, site: str) -> Remediation:
    text = "Keep that folder out, or install what is needed into the environment"
    if not origin.endswith(".pth"):
        return Remediation(text=text, commands=(leave_out_command(case, origin, site),), safe=True)
    entries = case.facts[SearchPath].entries
    found = next((one for one in entries if (one.origin, one.path) == (origin, site) and one.pth), None)
    if found is None:
        return Remediation(text=text)
    folder = found.pth.rpartition("/")[0]
    holder = next((one.origin for one in entries if one.path == folder), "")
    if holder == "user site":
        return Remediation(text=text, commands=(leave_out_command(case, holder, site),), safe=True)
    # Elsewhere it is another environment's file; where there are control characters sed sees other lines than Python.
    if holder != "site-packages" or not found.line.isprintable():
        return Remediation(text=f"{text}: {found.pth} adds it by the line {found.line!r}")
    # Newer Pythons take a byte order mark off; in older ones it is a part of the line, which then adds no folder.
    line = (
        r"\#^\(\xEF\xBB\xBF\)\?"
        + re.sub(r"[.\[\]*^$\\#]", lambda match: rf"\{match[0]}", found.line)
        + "[[:space:]]*$#d"
    )
    return Remediation(text=text, commands=(f"sed -i {shlex.quote(line)} {shlex.quote(found.pth)}",), safe=True)


def _python_home(case: CheckContext) -> Iterator[Finding]:
    value = case.facts[Environment].value("PYTHONHOME")
    python = case.facts[Interpreter]
    if not value or value.split(":")[0].rstrip("/") == python.home.rstrip("/").removesuffix("/bin"):
        return
    yield Finding(
        code=CODE,
        name=NAME,
        severity="error",
        confidence="high",
        title=f"PYTHONHOME is {value}: the interpreter takes its standard library from there",
        subject="PYTHONHOME",
        evidence=(f"the environment's base is {python.home}",),
        remediation=Remediation(text="Unset it", commands=("unset PYTHONHOME",), safe=True),
    )
