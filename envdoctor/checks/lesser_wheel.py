"""A wheel that is not the one of the lock.

What it finds:
    Distributions at the locked version whose wheel was built for another Python tag or ABI than the best locked wheel
    for this interpreter. What is compared are the tags in WHEEL and those in the locked wheels' file names. A PEP 751
    lock has these names, and so have the comments that `envdoctor lock` and `capture` write below an entry; a lock with
    hashes alone does not say which wheels they are, and nothing is found. Two wheels that differ in the glibc they need
    are one build.

Why it matters:
    One version can have a build for each Python, with different code in it. The one for another Python installs,
    imports, and may fail where it is used.

Example:
    multiprocess 0.70.19 as `py310-none-any` on CPython 3.12: its processes that are spawned end with a TypeError.

Fix:
    `envdoctor restore --profile NAME`, which takes the best locked wheel.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.remedies import locked_or
from envdoctor.checks.version_drift import same_version
from envdoctor.model.finding import Finding
from envdoctor.model.wording import counted
from envdoctor.probes.venv.distributions import Distribution, Distributions
from envdoctor.probes.venv.interpreter import Interpreter
from envdoctor.standards.wheel_builds import expanded, first_place

if TYPE_CHECKING:
    from envdoctor.standards.lock import LockedPackage

CODE = "ED418"
NAME = "lesser-wheel"
AREA = "Distributions"
_SHOWN = 12


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for all distributions whose wheel is not the best locked one."""
    installed, python = case.facts[Distributions], case.facts[Interpreter]
    found = [
        (item, best)
        for name, pin in sorted(case.locked().items())
        if pin.tags and all(pin.tags) and (item := installed.active(name)) and item.tags
        if same_version(item.version, pin.version) and (best := _better(item, pin, python))
    ]
    if not found:
        return
    more = f", and {counted(len(found) - 1, 'more distribution')}" if len(found) > 1 else ""
    first, best = found[0]
    yield Finding(
        code=CODE,
        name=NAME,
        severity="warning",
        confidence="high",
        title=f"{first.name} {first.version} was installed from a wheel for {_short(first.tags[0])}, and the lock has "
        f"one for {_short(best)}{more}",
        subject=", ".join(item.name for item, _ in found),
        evidence=(
            *(
                f"{item.name} {item.version}: {item.folder}/WHEEL says {item.tags[0]}, the lock's best wheel is "
                f"{wanted}"
                for item, wanted in found[:_SHOWN]
            ),
            *((f"and {len(found) - _SHOWN} more",) if len(found) > _SHOWN else ()),
        ),
        remediation=locked_or(case, "Install the locked wheels", []),
        symptom_of=("another-stack",),
    )


def _better(item: Distribution, pin: "LockedPackage", python: Interpreter) -> str:
    """Return the tags of the best locked wheel where the installed one is another build; else ""."""
    places: dict[int, str] = {}
    for tags in pin.tags:
        at = first_place(expanded(tags), python.minor, python.machine, free_threaded=python.free_threaded)
        if at is not None:
            places.setdefault(at, tags)
    own = first_place(item.tags, python.minor, python.machine, free_threaded=python.free_threaded)
    if not places or own is None:
        return ""  # not for this machine, or ED104's matter
    best = min(places)
    return places[best] if own != best else ""


def _short(tags: str) -> str:
    """Return the Python tag and the ABI."""
    return tags.rpartition("-")[0]
