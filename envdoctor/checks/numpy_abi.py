"""An extension that was compiled for numpy 1, beside numpy 2.

What it finds:
    Extension modules of distributions that require numpy, and torch's libtorch_python.so, compiled with numpy 1's
    headers, where numpy 2 or newer is installed: told from the words that the headers put into every such file. An
    error where an import raises, a warning where only a library is affected, as torch before 2.3, which imports.

Why it matters:
    Their metadata often asks for any numpy; the import raises. A module compiled for numpy 2 runs with numpy 1 as well.

Example:
    pandas 1.5.3 with numpy 2.4: `ValueError: numpy.dtype size changed, may indicate binary incompatibility`.

Fix:
    Take a version of the distribution that was built for numpy 2, or a numpy before 2 where everything else allows it.
"""

import shlex
from collections.abc import Iterator

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.damage import site_relative
from envdoctor.analysis.load_evidence import bound
from envdoctor.analysis.remedies import install_line, restore_or, unless_outside
from envdoctor.model.finding import Finding
from envdoctor.model.wording import counted
from envdoctor.probes.loading.numpy_abi import NumpyUser
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.standards.need import meets, parse_need

CODE = "ED312"
NAME = "compiled-for-numpy-1"
AREA = "Shared libraries"
_LAST_OF_1 = "1.26.4"
_SHOWN = 3


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for each distribution with such modules."""
    groups: dict[tuple[str, str], list[NumpyUser]] = {}
    for user in bound(case).numpy_1:
        groups.setdefault((user.owner, user.owner_version), []).append(user)
    for (owner, version), users in groups.items():
        yield _finding(case, owner, version, users)


def _finding(case: CheckContext, owner: str, version: str, users: list[NumpyUser]) -> Finding:
    numpy = case.facts[Distributions].active("numpy")
    against = _needs_numpy_2(case)
    more = f" and {len(users) - _SHOWN} more" if len(users) > _SHOWN else ""
    newer = _newer(case, owner, version) if numpy else ""
    modules = [user for user in users if user.module]
    harm = (
        f"{counted(len(modules), 'module')} of it cannot be imported" if modules else "its first use of an array fails"
    )
    return Finding(
        code=CODE,
        name=NAME,
        severity="error" if modules else "warning",
        confidence="high",
        title=f"{owner} {version} was compiled for numpy 1, and numpy {numpy.version if numpy else '2'} is installed: "
        f"{harm}",
        subject=owner,
        evidence=(
            f"compiled with numpy 1's headers: {', '.join(site_relative(user.path) for user in users[:_SHOWN])}{more}",
            *((f"{against} needs numpy 2",) if against else ()),
        ),
        remediation=unless_outside(
            case,
            [owner if against else "numpy"],
            restore_or(
                case,
                f"install a {'newer ' if newer and against else ''}version of {owner} that was built for numpy 2"
                + ("" if against else "; or go back to numpy 1, which everything here accepts"),
                [newer] * bool(newer) if against else [install_line(case, ["numpy"], "'numpy<2'")],
            ),
        ),
        causes=(f"dist:{owner}", f"numpy-1:{owner}"),
        symptom_of=("version:numpy", f"version:{owner}"),
    )


def _newer(case: CheckContext, owner: str, version: str) -> str:
    """Return the command for a newer version beside the numpy and the torch that are there; empty for torch itself.

    Both are named: an owner whose newest version still asks for numpy 1 would take numpy 2 from the others, and what it
    or a new requirement of it asks for could bring another torch. Where none fits them, uv says so and changes nothing.
    """
    installed = case.facts[Distributions]
    kept = [item for name in ("numpy", "torch") if (item := installed.active(name))]
    if installed.active(owner) is None or owner == "torch":
        return ""
    specs = shlex.join((f"{owner}>{version.partition('+')[0]}", *(f"{item.name}=={item.version}" for item in kept)))
    return install_line(case, [owner, *(item.name for item in kept)], specs)


def _needs_numpy_2(case: CheckContext) -> str:
    """Return the first distribution whose requirement shuts numpy 1 out, or empty."""
    for item in case.facts[Distributions].items:
        for line in item.requires:
            need = parse_need(line) if line[:5].lower() == "numpy" and "extra ==" not in line else None
            if need is not None and need.name == "numpy" and not meets(_LAST_OF_1, need.specifier):
                return item.name
    return ""
