"""Facts to a plan: pure, so that what is shown is what was decided."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from packaging.version import InvalidVersion, Version

from envdoctor.documents.profile_store import ProfileRef
from envdoctor.model.frozen import frozen, replace
from envdoctor.model.plan import BaseInterpreter, Change, Plan, PlannedPackage, SourceChange, VenvUser
from envdoctor.model.wording import counted
from envdoctor.probes.venv.distributions import Distribution
from envdoctor.probes.venv.own_packages import asked_again, origin
from envdoctor.standards.lock import LockedPackage
from envdoctor.wheels.wheel_origins import WheelOrigins
from envdoctor.wheels.wheelhouse import gate_hint

Extent = Literal["changed", "all"]
"""Which files are read to verify a venv: all but those that are as an earlier restore read them, or every one."""
_READ: dict[Extent, str] = {
    "changed": "what an earlier restore read and nobody has changed is not read again",
    "all": "every file is read",
}


@frozen
class Present:
    """The venv as it is before the restore."""

    exists: bool
    in_place: bool = False
    """Its folder cannot be renamed; what is in it is exchanged."""
    parent_missing: bool = False
    """The folder that it is to be in does not exist."""
    version: str = ""
    """Of its interpreter."""
    system_site_packages: bool = False
    installed: Mapping[str, Distribution]


def assemble(  # noqa: PLR0913 - the facts a plan is made of
    *,
    target: Path,
    keep: Path,
    file: ProfileRef,
    interpreter: BaseInterpreter,
    present: Present,
    locked: Mapping[str, LockedPackage],
    found: WheelOrigins,
    warnings: Sequence[str],
    offline: bool = False,
    users: tuple[VenvUser, ...] = (),
    sources: tuple[SourceChange, ...] = (),
    verify: Extent = "changed",
) -> Plan:
    """Put the facts together. `keep` is where the old venv would go."""
    packages = tuple(
        PlannedPackage(name=name, version=package.version, source=found.sources[name])
        for name, package in sorted(locked.items())
        if name in found.sources
    )
    differing = changes(present.installed, locked)
    return Plan(
        target=str(target),
        exists=present.exists,
        profile=file.profile.name,
        lock=str(file.lock_path),
        interpreter=interpreter,
        old_interpreter=present.version,
        packages=packages,
        unavailable=tuple(replace(one, hint=gate_hint(one.name, file.asked) or one.hint) for one in found.unavailable),
        changes=differing,
        unchanged=sum(name in present.installed for name in locked)
        - sum(bool(c.before and c.after) for c in differing),
        warnings=(*warnings, *_losses(target, present, locked)),
        steps=_steps(target, keep, present, len(packages), verify),
        offline=offline,
        users=users,
        sources=sources,
    )


def changes(present: Mapping[str, Distribution], locked: Mapping[str, LockedPackage]) -> tuple[Change, ...]:
    """Return removed, added and changed distributions, by name."""
    found: list[Change] = []
    for name in sorted({*present, *locked}):
        before = present[name].version if name in present else ""
        after = locked[name].version if name in locked else ""
        if not (before and after and _equal(before, after)):
            note = origin(present[name]) if name in present and not after else ""
            found.append(Change(name=name, before=before, after=after, note=note))
    return tuple(found)


def same(before: str, after: str) -> bool:
    """Tell whether two interpreter versions are of one minor release."""
    return before.split(".")[:2] == after.split(".")[:2]


def _equal(before: str, after: str) -> bool:
    try:
        return Version(before) == Version(after)
    except InvalidVersion:
        return before == after


def _losses(target: Path, present: Present, locked: Mapping[str, LockedPackage]) -> list[str]:
    python = shlex.quote(str(target / "bin" / "python"))
    told = [
        f"{item.name} {item.version} ({origin(item)}) is not in the lock and will not be in the new venv; "
        f"to add it afterwards: `uv pip install --python {python} --no-deps {asked_again(item)}`"
        for item in present.installed.values()
        if item.direct_url and item.name not in locked
    ]
    if present.system_site_packages:
        told.append("the old venv also sees the system's site-packages; the new one sees its own packages only")
    return told


def _steps(target: Path, keep: Path, present: Present, count: int, verify: Extent) -> tuple[str, ...]:
    steps = [f"make the folder {target.parent}"] if present.parent_missing else []
    steps += [
        f"build a new venv with {counted(count, 'package')} beside {target}",
        "compare the sha256 of every file with its RECORD, and the packages with the lock; " + _READ[verify],
        "examine the copy as `envdoctor check` does",
    ]
    if present.in_place:
        kept = f", what is in it now is kept at {keep}" if present.exists else ""
        steps.append(
            f"move it into {target}{kept}; that folder cannot be renamed (a mount point, or its parent may not be "
            "written), so the venv is incomplete for a moment; after an interruption the journal completes or undoes it"
        )
    elif present.exists:
        steps.append(f"swap it in, in one step; the old venv is kept at {keep}")
    else:
        steps.append(f"move it to {target}")
    return tuple(steps)
