"""A distribution at another version than the lock's.

What it finds:
    Installed distributions whose version differs from the lock's pin, local part included.

Why it matters:
    A drifted transformers or tokenizers changes results without an error; the locked set is the one that was measured.

Example:
    transformers 5.8.1 is installed, the lock pins 5.6.0.

Fix:
    `envdoctor restore --profile NAME`.
"""

from collections.abc import Iterator

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.remedies import install_command, locked_or, unless_outside
from envdoctor.model.finding import Finding
from envdoctor.model.wording import counted
from envdoctor.probes.venv.distributions import Distributions

CODE = "ED401"
NAME = "version-drift"
AREA = "Distributions"
_SHOWN = 12


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for all drifted distributions."""
    installed = case.facts[Distributions]
    drifted = [
        (name, item.version, pin.version)
        for name, pin in sorted(case.locked().items())
        # With a profile torch has a check of its own, which knows the build.
        if (name != "torch" or case.profile is None)
        and (item := installed.active(name))
        and not same_version(item.version, pin.version)
    ]
    if not drifted:
        return
    first = f"{drifted[0][0]} {drifted[0][1]} instead of {drifted[0][2]}"
    more = f" and {len(drifted) - 1} more" if len(drifted) > 1 else ""
    yield Finding(
        code=CODE,
        name=NAME,
        severity="error",
        confidence="high",
        title=f"{counted(len(drifted), 'distribution', 'has', 'have')} another version than the lock pins: "
        f"{first}{more}",
        subject=", ".join(name for name, _, _ in drifted),
        evidence=(
            *(
                f"{name}: {actual or 'unknown version'} installed, {pinned} locked"
                for name, actual, pinned in drifted[:_SHOWN]
            ),
            *((f"and {len(drifted) - _SHOWN} more",) if len(drifted) > _SHOWN else ()),
        ),
        remediation=unless_outside(
            case,
            [name for name, _, _ in drifted],
            locked_or(
                case, "install the locked versions", [install_command(case, [(name, pin) for name, _, pin in drifted])]
            ),
        ),
        causes=tuple(f"version:{name}" for name, _, _ in drifted),
        symptom_of=("another-stack",),
    )


def off_the_lock(case: CheckContext) -> tuple[int, int]:
    """Return (pinned distributions that are not installed at their version, all that are pinned)."""
    installed, pins = case.facts[Distributions], case.pins()
    active = {item.name: item.version for item in installed.items if not item.shadowed}
    off = sum(1 for name, pin in pins.items() if name not in active or not same_version(active[name], pin.version))
    return off, len(pins)


def same_version(one: str, other: str) -> bool:
    """Compare two versions with their local parts: 2.11.0 is not 2.11.0+cu128."""
    if one == other:
        return True
    from packaging.version import InvalidVersion, Version  # noqa: PLC0415 - slow to import, and only for a drift

    try:
        return Version(one) == Version(other)
    except InvalidVersion:
        return one == other
