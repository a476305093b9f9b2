"""A locked distribution that is not installed.

What it finds:
    Pins of the lock with no installed distribution of that name.

Why it matters:
    Requirements behind extras and ones that are only needed at run time (transformers needs accelerate for
    `device_map`) are missed by every metadata check.

Example:
    accelerate is locked at 1.13.0 and not installed.

Fix:
    Install the locked version, or restore the profile.
"""

from collections.abc import Iterator

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.remedies import install_command, locked_or
from envdoctor.model.finding import Finding
from envdoctor.probes.venv.distributions import Distributions

CODE = "ED402"
NAME = "missing-distribution"
AREA = "Distributions"
_SHOWN = 12


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for all missing distributions."""
    installed = case.facts[Distributions]
    missing = [pin for name, pin in sorted(case.locked().items()) if installed.active(name) is None]
    if not missing:
        return
    names = [f"{pin.name} {pin.version}".strip() for pin in missing]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    yield Finding(
        code=CODE,
        name=NAME,
        severity="error",
        confidence="high",
        title=f"{len(names)} locked distributions are not installed: {', '.join(names[:3])}{more}"
        if len(names) > 1
        else f"{names[0]} is locked and not installed",
        subject=", ".join(pin.name for pin in missing),
        evidence=(
            *(f"{name} is pinned by the lock; no dist-info of that name on sys.path" for name in names[:_SHOWN]),
            *((f"and {len(names) - _SHOWN} more",) if len(names) > _SHOWN else ()),
        ),
        remediation=locked_or(
            case, "install the locked versions", [install_command(case, [(pin.name, pin.version) for pin in missing])]
        ),
        causes=tuple(f"dist:{pin.name}" for pin in missing),
        symptom_of=("another-stack",),
    )
