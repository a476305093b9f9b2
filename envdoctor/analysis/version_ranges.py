"""The line that installs a version which everybody accepts, or who disagrees."""

import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.kept_torch import keep_torch
from envdoctor.analysis.remedies import install_line, restore_or, unless_outside
from envdoctor.analysis.unmet import asked_of
from envdoctor.model.finding import Remediation
from envdoctor.probes.venv.distributions import Distribution
from envdoctor.standards.need import agree, meets


def disagreement(case: CheckContext, asked: Mapping[str, Iterable[str]]) -> str:
    """Return who wants what, where no version of a distribution satisfies all who require it; else empty.

    `asked` is name -> clauses wanted now; what every installed distribution requires of it is added.
    """
    for name, requirers in _content(case, asked).items():
        wants = {f"{item.name} {item.version} wants {name}{specifier}": specifier for item, specifier in requirers}
        if not agree([*asked[name], *wants.values()]):
            shown = "; ".join(line for line, specifier in wants.items() if specifier)
            return (
                f"No version of {name} satisfies all who require it ({shown}): take another version of one of those, "
                "or uninstall the one that is not needed"
            )
    return ""


def ranges_command(
    case: CheckContext,
    asked: Mapping[str, Sequence[str]],
    *,
    extras: Mapping[str, Collection[str]] | None = None,
    flags: str = "",
) -> str:
    """Return the uv line that installs what satisfies every requirer, those that are content today too."""
    content = _content(case, asked)
    specs = []
    for name, clauses in sorted(asked.items()):
        others = {clause.strip() for _, text in content[name] for clause in text.split(",") if clause.strip()}
        # Of those that already hold for any version asked for, the line would only grow.
        needed = sorted({*clauses, *(clause for clause in others if not _implied(clause, clauses))})
        wanted = sorted((extras or {}).get(name, ()))
        specs.append(shlex.quote(name + (f"[{','.join(wanted)}]" if wanted else "") + ",".join(needed)))
    alone, torch = ("", "") if flags else keep_torch(case, asked)
    if "torch" in asked:
        # Left alone, uv takes the default index's build, for whatever CUDA is the newest.
        alone = "--torch-backend auto "
    return install_line(case, asked, f"{flags}{alone}{' '.join(specs)}{torch}")


def another_version(case: CheckContext, name: str, installed: str, clauses: Sequence[str], text: str) -> Remediation:
    """Return the remedy that brings a distribution into a range: by the restore where the lock has another version.

    Where the lock pins what is installed, a restore would bring the fault back.
    """
    if told := disagreement(case, {name: clauses}):
        return Remediation(text=f"{text}. {told}")
    command = ranges_command(case, {name: clauses})
    pin = case.pins().get(name)
    if case.profile is not None and pin is not None and pin.version == installed:
        remedy = Remediation(text=f"{text}, and lock it: the lock pins {name} {installed}", commands=(command,))
    else:
        remedy = restore_or(case, text, [command])
    return unless_outside(case, [name], remedy)


def _content(case: CheckContext, asked: Collection[str]) -> dict[str, list[tuple[Distribution, str]]]:
    """Return name -> (requirer, specifier) of those that stay: one that is asked for too is replaced."""
    found = asked_of(case, asked)
    return {name: [(item, text) for item, text in pairs if item.name not in asked] for name, pairs in found.items()}


def _implied(clause: str, clauses: Sequence[str]) -> bool:
    """Tell a lower bound below one that is asked for, or an upper bound above one."""
    for sign, inside in ((">=", ">="), ("<", "<=")):
        if mine := _bound(clause, sign):
            return any(meets(bound, f"{inside}{mine}") for other in clauses if (bound := _bound(other, sign)))
    return False


def _bound(clause: str, sign: str) -> str:
    bound = clause.removeprefix(sign) if clause.startswith(sign) else ""
    return "" if bound.startswith("=") else bound.strip()
