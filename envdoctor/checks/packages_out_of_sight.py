"""An interpreter that starts and sees none of the venv's packages.

What it finds:
    bin/python leads to another minor version than the one whose library folder holds the packages; the venv was made
    for another minor version in place, and the packages, or most of them, stayed in the old library folder; the library
    folder was renamed, or is gone; or the folder has lost its pyvenv.cfg, so that Python takes bin/python for its base.
    Modules without metadata in an old library folder are worth a warning.

Why it matters:
    Nothing is damaged and every import fails: `ModuleNotFoundError: No module named 'torch'`. What is installed by that
    interpreter then lands in another folder, or in the base Python itself.

Example:
    `/usr/bin/python3` was 3.12 and is 3.13 since the upgrade; `.venv/lib/python3.12` holds the packages.

Fix:
    `uv venv --allow-existing --python 3.12 VENV` links the right interpreter and keeps the packages. Where packages
    were installed for the new one already, it would hide those: install what is missing, and delete the old folder.
    Where the library folder is gone (`.gitignore` files for Python leave `lib/` out of a commit, and `git clean -X`
    deletes it), the same command makes an empty one, and the packages are installed again.
"""

import shlex
from collections.abc import Iterator, Sequence

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.python_again import renew_command
from envdoctor.analysis.remedies import restore_or
from envdoctor.model.finding import Finding
from envdoctor.model.frozen import frozen
from envdoctor.model.verdict import BREAKS_IMPORT, STOPS_PYTHON
from envdoctor.model.wording import counted
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.probes.venv.interpreter import Interpreter, OtherLibrary
from envdoctor.standards.names import normalized

CODE = "ED105"
NAME = "packages-not-on-path"
AREA = "Interpreter"
# What `python -m venv` and virtualenv put into an empty one.
_INSTALLERS = frozenset(("pip", "setuptools", "wheel"))
_SHOWN = 6


@frozen
class _Left:
    """Packages of a venv that are for another Python than its own."""

    other: OtherLibrary
    lacking: tuple[str, ...]
    """Those that this Python finds nowhere, torch first."""
    own: str
    """What the venv's own library folder holds; empty for nothing but installers."""
    elsewhere: int
    """Distributions that it finds outside of the venv."""


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding when the packages lie where this interpreter does not look."""
    python = case.facts[Interpreter]
    holds = python.folder.removeprefix("python").rstrip("t")
    if python.lost_library:
        yield _lost(case, python)
        return
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
        yield _of_another(case, left)
        return
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
            [renew_command(case, "")],
        ),
        causes=(STOPS_PYTHON, BREAKS_IMPORT),
    )


def _lost(case: CheckContext, python: Interpreter) -> Finding:
    return Finding(
        code=CODE,
        name=NAME,
        severity="error",
        confidence="high",
        title=f"the library folder of this venv is gone, and every package with it: there is no {python.library}",
        subject=python.executable,
        evidence=(
            f"{case.facts.target}/pyvenv.cfg is of a venv for CPython {python.version}",
            "a .gitignore for Python names lib/: it is left out of a commit, and `git clean -X` deletes it",
        ),
        remediation=restore_or(
            case,
            "make an empty one, and install the packages again from what the venv was made from",
            [renew_command(case)],
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


def _of_another(case: CheckContext, left: _Left) -> Finding:
    python, other = case.facts[Interpreter], left.other
    holds = other.folder.removeprefix("python")
    if other.distributions:
        what, one = counted(len(other.distributions), "distribution"), len(other.distributions) == 1
    else:
        what, one = f"{counted(other.modules, 'module')} without metadata", other.modules == 1
    site = f"{python.library}/site-packages"
    if left.own:
        title = f"this venv is for CPython {python.minor}, and {len(left.lacking)} of its {what} "
        title += f"{'is' if len(left.lacking) == 1 else 'are'} for {holds} only"
        here = f"{site} holds {left.own}, without {_named(left.lacking)}"
        remedy = f"install for {python.minor} what is missing, and delete lib/{other.folder}. A link to Python {holds} "
        remedy += "would bring back the old packages and hide those that are there now"
        commands = list[str]()
    else:
        title = f"this venv is for CPython {python.minor} and has no packages: {what} of it {'is' if one else 'are'} "
        title += f"for {holds}"
        here = f"{site} holds no distribution but installers"
        remedy = f"link the venv to a Python {holds} again; the packages stay. Or keep {python.minor}, install what is "
        remedy += f"missing for it, and delete lib/{other.folder}"
        commands = [renew_command(case, holds)]
    # Of packages that were left out on purpose nothing is known to ask for them; of modules not even what they are.
    severe = "torch" in left.lacking or other.torch or not (left.own or left.elsewhere or other.modules)
    return Finding(
        code=CODE,
        name=NAME,
        severity="error" if severe else "warning",
        confidence="high" if severe else "medium",
        title=title,
        subject=python.executable,
        evidence=(
            here,
            f"{case.facts.target}/lib/{other.folder}/site-packages holds {what}",
            *((f"{counted(left.elsewhere, 'distribution')} of other folders on sys.path",) if left.elsewhere else ()),
        ),
        remediation=restore_or(case, remedy, commands),
        # Where it has anything to import, this Python runs as the environment's.
        causes=(*((STOPS_PYTHON,) if not (left.own or left.elsewhere) else ()), BREAKS_IMPORT) if severe else (),
    )


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"


def _left_behind(case: CheckContext) -> _Left | None:
    """Return the library folder with the most packages, and what its packages lack.

    None where the own one holds most of them: they were installed again, and the old folder is only in the way.
    """
    others, installed = case.facts[Interpreter].other_libraries, case.facts.get(Distributions)
    if not others or installed is None:
        return None
    active = {item.name: item.origin == "site-packages" for item in installed.items if not item.shadowed}
    seen = active.keys() - _INSTALLERS
    own = sum(active[name] for name in seen)
    other = max(others, key=lambda item: (len(item.distributions), item.modules))
    wanted = sorted(set(other.distributions) - _INSTALLERS, key=lambda name: (name != "torch", name))
    modules = {normalized(module) for module in installed.bare}
    lacking = tuple(name for name in wanted if name not in seen and name not in modules)
    # Of the other modules without metadata each may be one of the packages too, but not torch.
    bare, unknown = len(installed.bare), len(modules.difference(wanted))
    here = (seen or bare) and len(lacking) * 2 <= max(len(wanted), 2 * unknown)
    if here and "torch" not in lacking:
        return None
    if not (lacking or other.modules):
        return None
    there = counted(own, "distribution") if own else f"{counted(bare, 'module')} without metadata" if bare else ""
    return _Left(other=other, lacking=lacking, own=there, elsewhere=len(seen) - own)
