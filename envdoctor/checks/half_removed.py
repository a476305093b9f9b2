"""Remains of an uninstall that was interrupted.

What it finds:
    Names that begin with `~` in site-packages: pip renames a distribution's folders so before it deletes them, and a
    killed pip leaves them there.

Why it matters:
    When it happened in the middle of an upgrade the distribution is gone, although gigabytes of it are there. pip warns
    "Ignoring invalid distribution ~orch" ever after.

Example:
    `~orch` and `~orch-2.10.0.dist-info` in place of torch.

Fix:
    Install the distribution again; delete the remains only when it is whole.
"""

import shlex
from collections.abc import Iterator, Sequence

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.remedies import install_command, restore_or
from envdoctor.model.finding import Finding, Remediation
from envdoctor.model.wording import counted
from envdoctor.probes.venv.distributions import Distributions, Leftover

CODE = "ED206"
NAME = "half-removed-distribution"
AREA = "Installed files"
_SHOWN = 6


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for all remains: an error when what they are of is not installed any more."""
    installed = case.facts[Distributions]
    left = installed.leftovers
    if not left:
        return
    gone = [item for item in left if item.name and installed.active(item.name) is None]
    title = (
        f"{_names(gone)} {'is' if len(gone) == 1 else 'are'} half uninstalled: only what pip set aside is left"
        if gone
        else f"an interrupted pip left {counted(len(left), 'remnant')} in site-packages"
    )
    yield Finding(
        code=CODE,
        name=NAME,
        severity="error" if gone else "warning",
        confidence="high",
        title=title,
        subject=", ".join(item.name for item in gone) or "site-packages",
        evidence=(
            *(_line(item) for item in left[:_SHOWN]),
            *((f"and {len(left) - _SHOWN} more",) if len(left) > _SHOWN else ()),
        ),
        remediation=_remedy(case, left, gone),
        causes=tuple(f"dist:{item.name}" for item in gone),
    )


def _names(gone: Sequence[Leftover]) -> str:
    return ", ".join(f"{item.name} {item.version}".strip() for item in gone)


def _line(item: Leftover) -> str:
    return f"{item.path}: metadata of {item.name} {item.version}" if item.name else item.path


def _remedy(case: CheckContext, left: Sequence[Leftover], gone: Sequence[Leftover]) -> Remediation:
    remove = f"rm -r {' '.join(shlex.quote(item.path) for item in left)}"
    if not gone:
        return Remediation(
            text="Delete the remains; the distributions themselves are whole by their RECORDs, or another finding says "
            "what they lack",
            commands=(remove,),
        )
    pins = [(item.name, case.pins()[item.name].version if item.name in case.pins() else item.version) for item in gone]
    return restore_or(
        case,
        "install again what is gone, and only then delete the remains: until then they are the last copy",
        [f"{install_command(case, pins)} && {remove}"],
    )
