"""A package that code demands when it is called, and metadata does not.

What it finds:
    Packages that transformers requires at run time for what training code calls, absent or older than it accepts. The
    versions are read from the installed transformers' own table.

Why it matters:
    They stand in an extra that nobody asks for, so pip and uv see nothing; absent and too old raise the same text,
    "requires Accelerate: `pip install accelerate`", which does not help who has it.

Example:
    transformers 5.8.1 with accelerate 0.10.0: `from_pretrained(device_map=...)` raises.

Fix:
    Install the version, and lock `transformers[torch]`. There is no command where that version was not published when
    this version of envdoctor was: transformers may ask for a release to come.
"""

import shlex
from collections.abc import Iterator

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.kept_torch import keep_torch
from envdoctor.analysis.remedies import install_line, restore_or, unless_outside
from envdoctor.catalog.companion_versions import RUNTIME_NEEDS, RuntimeNeed
from envdoctor.model.finding import Finding, Remediation, Severity
from envdoctor.probes.venv.companions import Companions
from envdoctor.probes.venv.distributions import Distribution, Distributions
from envdoctor.standards.need import meets, parse_need

CODE = "ED407"
NAME = "unmet-runtime-requirement"
AREA = "Distributions"


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for each package that is absent or too old."""
    installed = case.facts[Distributions]
    for need in RUNTIME_NEEDS:
        requirer, present = installed.active(need.requirer), installed.active(need.name)
        if requirer is None or (present is None and not need.expected):
            continue
        specifier, path = _specifier(case, need)
        # What one version asks for says nothing of the other ones.
        if not path and case.facts[Companions].windows_from and present is not None:
            continue
        if present is None:
            yield _finding(case, need, requirer, None, specifier, path)
        elif not meets(present.version, specifier):
            yield _finding(case, need, requirer, present, specifier, path)


def _specifier(case: CheckContext, need: RuntimeNeed) -> tuple[str, str]:
    """Return (">=1.1.0", the file that says so) from the installed package's source; else (this tool's data, "")."""
    companions = case.facts[Companions]
    stated = next((window for window in companions.windows if window.name == need.name), None)
    parsed = parse_need(stated.requirement) if stated else None
    lower = [clause for clause in (parsed.specifier if parsed else "").split(",") if clause.strip().startswith(">=")]
    if stated is not None and lower:
        return lower[0].strip(), stated.path or companions.windows_from
    return f">={need.minimum}", ""


def _finding(
    case: CheckContext,
    need: RuntimeNeed,
    requirer: Distribution,
    present: Distribution | None,
    specifier: str,
    path: str,
) -> Finding:
    severity: Severity = "warning" if present else ("error" if need.name in case.pins() else "note")
    state = (
        f"{need.name} {present.version} is too old for"
        if present
        else f"{need.name} is not installed, which is needed by"
    )
    return Finding(
        code=CODE,
        name=NAME,
        severity=severity,
        confidence="high" if present else "medium",
        title=f"{state} {requirer.name} {requirer.version}: {need.when} will raise, asking for {need.name}{specifier}",
        subject=need.name,
        evidence=(
            f"{path}: {need.name}{specifier}" if path else need.source,
            f"installed: {need.name} {present.version}" if present else f"no dist-info of {need.name} on sys.path",
            "a matter of run time, not of metadata: `pip check` and `uv pip check` see nothing",
        ),
        remediation=_remedy(case, need, requirer.name, specifier),
        symptom_of=(f"dist:{need.name}", f"version:{need.name}"),
    )


def _remedy(case: CheckContext, need: RuntimeNeed, requirer: str, specifier: str) -> Remediation:
    wanted = f"{need.name}{specifier}"
    if case.lock is not None and need.name not in case.pins() and case.facts[Distributions].active(need.name) is None:
        return Remediation(text=f"nothing, if this stack does not call that; else add {wanted} to the lock", safe=True)
    if meets(need.published, specifier):
        flags, torch = keep_torch(case, [need.name])
        command = install_line(case, [need.name], f"{flags}{shlex.quote(wanted)}{torch}")
        alone = (
            ", without dependencies, since torch is not installed and one of another build would come" if flags else ""
        )
        return unless_outside(case, [need.name], restore_or(case, f"install {wanted}{alone}, and lock it", [command]))
    text = (
        f"install {wanted} if it has been published ({need.published} is the newest that this version of envdoctor "
        f"knows), otherwise an older {requirer}, and lock it"
    )
    return restore_or(case, text, [])
