"""Conda and pip in one environment, each with its own idea of a package.

What it finds:
    Distributions of a conda environment that pip or uv installed over conda's package of the same name.

Why it matters:
    conda believes that its version is there and solves for it; files of both are in one folder, and the next `conda
    install` or `pip uninstall` removes what the other needs.

Example:
    conda's pytorch 2.5.1 in conda-meta, torch 2.8.0 from pip in site-packages.

Fix:
    Take one of them: uninstall pip's and force-reinstall conda's, or make a venv without conda.
"""

import shlex
from collections.abc import Iterator

from envdoctor.analysis.context import CheckContext, DoesNotApplyError
from envdoctor.analysis.remedies import uninstall_command, unless_outside
from envdoctor.model.finding import Finding, Remediation
from envdoctor.probes.venv.conda import Conda
from envdoctor.probes.venv.distributions import Distributions

CODE = "ED605"
NAME = "conda-pip-conflict"
AREA = "Distributions"
_SHOWN = 8
_PIP = frozenset({"pip", "uv"})
_SEEDS = frozenset({"pip", "setuptools", "wheel"})


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for all distributions that both installed."""
    packages = {package.name: package for package in case.facts[Conda].packages}
    if not packages:
        raise DoesNotApplyError("this is not a conda environment")
    both = [
        item
        for item in case.facts[Distributions].items
        if item.name in packages and item.installer in _PIP and item.name not in _SEEDS and not item.shadowed
    ]
    if not both:
        return
    names = [item.name for item in both]
    first = both[0]
    more = f" and {len(both) - 1} more" if len(both) > 1 else ""
    pins = " ".join(shlex.quote(f"{_conda_name(name)}={packages[name].version}") for name in names)
    yield Finding(
        code=CODE,
        name=NAME,
        severity="warning",
        confidence="high",
        title=f"{first.installer} installed {first.name} {first.version}{more} over conda's "
        f"{first.name} {packages[first.name].version}",
        subject=", ".join(names),
        evidence=tuple(
            f"{item.name}: {item.version} by {item.installer}, {packages[item.name].version} in conda-meta"
            for item in both[:_SHOWN]
        ),
        remediation=unless_outside(
            case,
            names,
            Remediation(
                text="Take one of them. To keep conda's: uninstall the other and force-reinstall conda's; a plain "
                "`conda install` assumes that its files are there",
                commands=(
                    uninstall_command(case, names),
                    f"conda install --prefix {case.prefix} --force-reinstall --no-deps {pins}",
                ),
            ),
        ),
    )


def _conda_name(name: str) -> str:
    return "pytorch" if name == "torch" else name
