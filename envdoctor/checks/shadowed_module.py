"""A module that is imported from another place than the one it was installed into.

What it finds:
    Modules of a PYTHONPATH folder that are installed in the venv too, or bear a standard module's name; modules of
    the current folder that bear the name of an installed distribution or of its one module (`yaml` of PyYAML), or of a
    standard module that torch imports;
    packages split over lib and lib64; a stale copy in site-packages in front of an editable install; a file that no
    distribution installed beside one that a distribution did, where the first is what Python takes (`NAME/__init__.py`
    or `NAME.so` beside `NAME.py`), and such a pair of two distributions: at the top level, with `--deep` in every
    package.

Why it matters:
    The first folder on sys.path wins, whatever pip or uv say is installed: torch 2.6 runs where 2.8 is listed, and
    torchvision, built for 2.8, reports `operator torchvision::nms does not exist`. Reinstalling changes nothing.

Example:
    PYTHONPATH=/opt/site with a torch in it; a folder `datasets` in the project; a folder `typing_extensions` with an
    `__init__.py` that another layer of the image left beside typing_extensions.py.

Fix:
    Take the folder out of PYTHONPATH; start from another folder, or rename.
"""

import shlex
from collections.abc import Iterator, Sequence

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.damage import site_relative
from envdoctor.analysis.remedies import reinstall_command, restore_or
from envdoctor.analysis.variable_commands import leave_out_command
from envdoctor.model.finding import Finding, Remediation, Severity
from envdoctor.probes.venv.beside import Beside
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.probes.venv.shadowing import Shadow, Shadowing
from envdoctor.standards.names import normalized

CODE = "ED410"
NAME = "shadowed-module"
AREA = "Environment"
_SHOWN = 8


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for each folder that comes first."""
    fronts: dict[tuple[str, str], list[Shadow]] = {}
    for shadow in case.facts[Shadowing].shadows:
        fronts.setdefault((shadow.front_origin, shadow.front), []).append(shadow)
    for (origin, front), shadows in fronts.items():
        yield _finding(case, origin, front, shadows)
    yield from map(_beside, case.facts[Shadowing].beside)


def _of_two(item: Beside) -> Finding:
    first, second = f"{item.front_owner} {item.front_version}", f"{item.owner} {item.version}"
    return Finding(
        code=CODE,
        name=NAME,
        severity="warning",
        confidence="high",
        title=f"{item.module} is imported from {site_relative(item.fronts[0])} of {first}, and never from "
        f"{site_relative(item.installed)} of {second}",
        subject=item.module,
        evidence=(
            f"in one folder Python takes a package first, then an extension module, then source: {item.fronts[0]}",
            f"installed, too: {item.installed}",
        ),
        remediation=Remediation(
            text=f"Decide which of {item.front_owner} and {item.owner} this environment needs, and uninstall the other "
            "one: they share the name of the module, and no file"
        ),
        causes=(f"shadow:{normalized(item.module)}",),
    )


def _beside(item: Beside) -> Finding:
    if item.front_owner:
        return _of_two(item)
    front = item.fronts[0]
    return Finding(
        code=CODE,
        name=NAME,
        severity="error",
        confidence="high",
        title=f"{item.module} would be imported from {site_relative(front)}, which no distribution installed, instead "
        f"of {site_relative(item.installed)} of {item.owner} {item.version}",
        subject=item.module,
        evidence=(
            f"in one folder Python takes a package first, then an extension module, then source: {front}",
            f"installed: {item.installed}",
        ),
        remediation=Remediation(
            text="Set it aside, under a name that no import finds; a reinstall would leave it where it is",
            commands=tuple(f"mv {shlex.quote(path)} {shlex.quote(f'{path}.aside')}" for path in item.fronts),
            safe=True,
        ),
        causes=(f"shadow:{normalized(item.module)}",),
    )


def _finding(case: CheckContext, origin: str, front: str, shadows: Sequence[Shadow]) -> Finding:
    ranked = sorted(
        shadows, key=lambda shadow: (shadow.module != "torch", not _version(case, front, shadow), shadow.module)
    )
    first = ranked[0]
    more = f" and {len(ranked) - 1} more" if len(ranked) > 1 else ""
    return Finding(
        code=CODE,
        name=NAME,
        severity=_severity(case, origin, ranked),
        confidence="medium" if origin == "current folder" else "high",
        title=f"{first.module}{_version(case, front, first)}{more} would be imported from {front} ({origin}) instead "
        f"of {_in(case, first.behind, first)}",
        subject=", ".join(shadow.module for shadow in ranked[:_SHOWN]),
        evidence=(
            *(
                f"{shadow.module}: {_in(case, front, shadow)} shadows {_in(case, shadow.behind, shadow)}"
                for shadow in ranked[:_SHOWN]
            ),
            *((f"and {len(ranked) - _SHOWN} more",) if len(ranked) > _SHOWN else ()),
        ),
        remediation=_remedy(case, origin, front, ranked),
        causes=(f"shadow-folder:{front}", *(f"shadow:{normalized(shadow.module)}" for shadow in ranked)),
    )


def _severity(case: CheckContext, origin: str, shadows: Sequence[Shadow]) -> Severity:
    if origin == "current folder":
        return "warning"
    # A source tree on PYTHONPATH may be meant; another environment's packages are not, and another torch is another
    # stack than the one that is installed here, however it was made.
    if any(shadow.module == "torch" for shadow in shadows):
        return "error"
    installed = any(_version(case, shadow.front, shadow) for shadow in shadows)
    standard = any(shadow.behind_origin == "standard library" for shadow in shadows)
    return "error" if origin == "PYTHONPATH" and (installed or standard) else "warning"


def _version(case: CheckContext, folder: str, shadow: Shadow) -> str:
    name = normalized(shadow.module)
    items = case.facts[Distributions].items
    return next((f" {item.version}" for item in items if item.site == folder and item.name == name), "")


def _in(case: CheckContext, folder: str, shadow: Shadow) -> str:
    """Return "2.8.0 in FOLDER", or the folder alone."""
    version = _version(case, folder, shadow).strip()
    return f"{version} in {folder}" if version else folder


def _remedy(case: CheckContext, origin: str, front: str, shadows: Sequence[Shadow]) -> Remediation:
    if origin in ("PYTHONPATH", "user site"):
        out = "out of PYTHONPATH" if origin == "PYTHONPATH" else "out of this environment"
        return Remediation(
            text=f"Take that folder {out}; reinstalling changes nothing while it comes first on the search path",
            commands=(leave_out_command(case, origin, front),),
            safe=True,
        )
    if origin == "current folder":
        return Remediation(
            text="Start from another folder, rename the local one, or set PYTHONSAFEPATH=1, which keeps the current "
            "folder out of sys.path",
            commands=("export PYTHONSAFEPATH=1",),
            safe=True,
        )
    installed = case.facts[Distributions]
    names = sorted({normalized(shadow.module) for shadow in shadows})
    pins = [(name, item.version) for name in names if (item := installed.active(name)) and not item.editable]
    if pins:
        return restore_or(case, "force-reinstall, into one folder", [reinstall_command(case, pins)])
    stale = " ".join(shlex.quote(f"{shadow.front}/{shadow.module}") for shadow in shadows)
    return restore_or(case, "delete the stale copy in front of the editable source", [f"rm -r {stale}"])
