"""A wheel that is not the one of the lock.

What it finds:
    Distributions at the locked version whose wheel was built for another Python tag or ABI than the best locked wheel
    for this interpreter. The tags in WHEEL are compared with those in the file names of the locked wheels. A PEP 751
    lock has these names; `envdoctor lock`, `capture` and `profile new` write them as comments below each entry. A lock
    with hashes alone does not name its wheels, and nothing is found. Two wheels that differ only in the glibc they need
    are one build; a locked wheel for a newer glibc than this machine's is left aside.

Why it matters:
    One version can have a wheel for each Python, with different code. A wheel for another Python installs and imports,
    and can fail in use.

Example:
    multiprocess 0.70.19 as `py310-none-any` on CPython 3.12: each process that it spawns ends with a TypeError.

Fix:
    `envdoctor restore --force --profile NAME`, which takes the best locked wheel; for a lock of uv's the command with
    `--reinstall-package`. A wheel that was renamed after its build shows other tags than its name for ever: a restore
    notes its name in the venv it builds, and in a venv made otherwise accept it with `--ignore ED418=REASON`.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.remedies import locked_or
from envdoctor.checks.version_drift import same_version
from envdoctor.model.finding import Finding, Remediation
from envdoctor.model.frozen import replace
from envdoctor.model.wording import counted
from envdoctor.probes.machine.platform import Platform
from envdoctor.probes.venv.distributions import Distribution, Distributions
from envdoctor.probes.venv.interpreter import Interpreter
from envdoctor.standards.wheel_builds import expanded, first_place, needed_glibc, tags_in

if TYPE_CHECKING:
    from envdoctor.standards.lock import LockedPackage

CODE = "ED418"
NAME = "lesser-wheel"
AREA = "Distributions"
_SHOWN = 12


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for all distributions whose wheel is not the best locked one."""
    installed, python, platform = case.facts[Distributions], case.facts[Interpreter], case.facts[Platform]
    found = [
        (item, best)
        for name, pin in sorted(case.locked().items())
        if pin.tags and all(pin.tags) and (item := installed.active(name)) and item.tags
        if same_version(item.version, pin.version) and (best := _better(item, pin, python, platform.glibc))
    ]
    if not found:
        return
    more = f", and {counted(len(found) - 1, 'more distribution')}" if len(found) > 1 else ""
    first, best = found[0]
    own = tags_in(first.wheel) or first.tags[0]
    yield Finding(
        code=CODE,
        name=NAME,
        severity="warning",
        confidence="high",
        title=f"{first.name} {first.version} was installed from a wheel for {_short(own)}, and the lock has "
        f"one for {_short(best)}{more}",
        subject=", ".join(item.name for item, _ in found),
        evidence=(
            *(
                f"{item.name} {item.version}: {_source(item)}, the lock's best wheel is {wanted}"
                for item, wanted in found[:_SHOWN]
            ),
            *((f"and {len(found) - _SHOWN} more",) if len(found) > _SHOWN else ()),
        ),
        remediation=_forced(locked_or(case, "Install the locked wheels", []), [item.name for item, _ in found]),
        symptom_of=("another-stack",),
    )


def _better(item: Distribution, pin: "LockedPackage", python: Interpreter, glibc: str) -> str:
    """Return the tags of the best locked wheel where the installed one is another build; else ""."""
    places: dict[int, str] = {}
    for tags in pin.tags:
        for tag in expanded(tags):
            at = first_place([tag], python.minor, python.machine, free_threaded=python.free_threaded)
            needed = needed_glibc(tag)
            if at is None:
                continue
            if needed and not glibc:
                return ""  # it may be too new for this machine
            if not needed or needed <= _numbers(glibc):
                places.setdefault(at, tags)
    stated = tags_in(item.wheel)
    own = first_place(
        expanded(stated) if stated else item.tags, python.minor, python.machine, free_threaded=python.free_threaded
    )
    if not places or own is None:
        return ""  # not for this machine, or ED104's matter
    best = min(places)
    return places[best] if own != best else ""


def _forced(told: Remediation, names: Sequence[str]) -> Remediation:
    """Return it with commands that install although each version is in place; Poetry and PDM have no such option."""
    again = "".join(f" --reinstall-package {name}" for name in names)
    commands = []
    for command in told.commands:
        if command.startswith("envdoctor restore "):
            commands.append(command.replace("envdoctor restore ", "envdoctor restore --force ", 1))
        elif command.partition("uv ")[2].startswith(("pip install ", "sync ")):
            commands.append(command + again)
    return replace(told, commands=tuple(commands))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdecimal())


def _source(item: Distribution) -> str:
    return f"was built from {item.wheel}" if item.wheel else f"{item.folder}/WHEEL says {item.tags[0]}"


def _short(tags: str) -> str:
    """Return the Python tag and the ABI."""
    return tags.rpartition("-")[0]
