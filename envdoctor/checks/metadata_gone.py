"""Packages without any metadata.

What it finds:
    The environment's own site-packages holds packages, and no dist-info folder at all; or, beside distributions that
    are whole, packages of which no RECORD lists a file.

Why it matters:
    Imports may still work, and nothing else does: importlib.metadata finds no version, so that what reads its own or
    another one's (transformers does) raises PackageNotFoundError; uv and pip take the environment for empty and install
    other versions over these files. Neither a file nor a requirement can be checked.

Example:
    `find / -name "*.dist-info" -exec rm -r {} +` in a Dockerfile, to make the image smaller.

Fix:
    Make the environment again from what it was made from; metadata cannot be written afterwards.
"""

from collections.abc import Iterator, Sequence

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.remedies import locked_or
from envdoctor.model.finding import Finding
from envdoctor.model.wording import counted
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.probes.venv.shadowing import Shadowing
from envdoctor.standards.names import normalized

CODE = "ED417"
NAME = "metadata-gone"
AREA = "Distributions"
_SHOWN = 8


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for an environment that has modules and no metadata, or one for all packages of nobody."""
    bare = case.facts[Distributions].bare
    if bare:
        yield _finding(
            case,
            f"site-packages holds {counted(len(bare), 'module')} and no metadata: what they are is not known",
            "site-packages",
            bare,
            "without a dist-info folder importlib.metadata finds no version, and uv and pip install over these files",
            "Make the environment again, in an empty folder, from the requirements or the lock that it was made from",
        )
    elif unlisted := _unlisted(case):
        it, of = ("it", unlisted[0]) if len(unlisted) == 1 else ("them", counted(len(unlisted), "package"))
        yield _finding(
            case,
            f"site-packages holds {of} without metadata: no RECORD lists a file of {it}",
            ", ".join(unlisted),
            unlisted,
            "an installation that was killed leaves this, since metadata is written last; so does a copy by hand",
            f"Install again what {it if len(unlisted) == 1 else 'they'} came with, in the version that is meant; leave "
            f"{it} as {'it is' if len(unlisted) == 1 else 'they are'}, if put there by hand",
        )


def _unlisted(case: CheckContext) -> list[str]:
    shadowing = case.facts.get(Shadowing)
    if shadowing is None:
        return []
    # One in front of a module of the same name is told as that, and a distribution of the same folder whose RECORD is
    # empty, or that is half uninstalled, as what it is.
    fronts = {front.rpartition("/")[0] for item in shadowing.beside for front in item.fronts}
    fronts |= {f"{shadow.front}/{shadow.module}" for shadow in shadowing.shadows}
    there = case.facts[Distributions]
    told = {(item.site, item.name) for item in there.items}
    told |= {(item.path.rpartition("/")[0], item.name) for item in there.leftovers}
    places = [path.rpartition("/") for path in shadowing.unlisted if path not in fronts]
    return [name for site, _, name in places if (site, normalized(name)) not in told]


def _finding(
    case: CheckContext, title: str, subject: str, modules: Sequence[str], evidence: str, remedy: str
) -> Finding:
    more = f" and {len(modules) - _SHOWN} more" if len(modules) > _SHOWN else ""
    return Finding(
        code=CODE,
        name=NAME,
        severity="warning",
        confidence="high",
        title=title,
        subject=subject,
        evidence=(f"{', '.join(modules[:_SHOWN])}{more}", evidence),
        remediation=locked_or(case, remedy, []),
    )
