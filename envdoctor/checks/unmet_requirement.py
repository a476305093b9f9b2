"""A declared requirement that is not met.

What it finds:
    Requires-Dist of every installed distribution, with its markers and with the extras that others ask of it, against
    what is installed: what is missing and what has another version.

Why it matters:
    `pip check` and `uv pip check` do not follow extras. torch asks for `cuda-toolkit[cublas,cudart,...]`, and eleven
    CUDA libraries hang on those extras alone: remove one, and both say that all is well.

Example:
    `nvidia-cufft-cu12` was removed; `import torch` fails, and every metadata check is clean.

Fix:
    Install what is missing, at the version that is asked for.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence

from envdoctor.analysis.context import Case
from envdoctor.analysis.remedies import install_command, restore_or
from envdoctor.analysis.unmet import Unmet, unmet_requirements
from envdoctor.catalog.cudalibs import expected_owner
from envdoctor.model.finding import Finding, Remediation, Severity
from envdoctor.model.wording import counted
from envdoctor.probes.loading.libraries import Libraries
from envdoctor.probes.loading.torch_build import TorchBuild

CODE = "ED406"
NAME = "unmet-requirement"
AREA = "Distributions"
_SHOWN = 8


def run(case: Case) -> Iterator[Finding]:
    """Yield one finding for what is missing, one for torch's compiler, one for other versions that do not fit."""
    pins = case.pins()
    # A lock that leaves a requirement unmet was measured so: where the environment is as locked, that is no fault.
    unmet = [
        item
        for item in unmet_requirements(case)
        if case.lock is None or (pins[item.name].version if item.name in pins else "") != item.installed
    ]
    if missing := [item for item in unmet if not item.installed]:
        yield _missing(case, missing)
    compilers = [item for item in unmet if item.installed and (item.requirer.name, item.name) == ("torch", "triton")]
    if compilers:
        yield _mismatch(case, compilers, *_compiler_severity(case))
    if others := [item for item in unmet if item.installed and item not in compilers]:
        yield _mismatch(case, others, "warning", "")


def _compiler_severity(case: Case) -> tuple[Severity, str]:
    wanted = case.profile.compile if case.profile else None
    compiles = wanted is not None and bool(wanted.threads or wanted.cache_minimum_entries or wanted.cache_bytes)
    return ("error" if compiles else "warning"), "import torch works; torch.compile fails or miscompiles"


def _missing(case: Case, missing: Sequence[Unmet]) -> Finding:
    names = list(dict.fromkeys(item.name for item in missing))
    title = (
        f"{names[0]} is not installed; {missing[0].text}"
        if len(names) == 1
        else f"{counted(len(names), 'required distribution', 'is', 'are')} not installed: {', '.join(names[:3])}"
        + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    )
    return Finding(
        code=CODE,
        name=NAME,
        severity="error",
        confidence="high",
        title=title,
        subject=", ".join(names),
        evidence=_evidence(missing),
        remediation=_install(case, missing),
        causes=(*(f"requirement:{name}" for name in names), *_lost_libraries(case, names)),
        symptom_of=tuple(f"dist:{name}" for name in names),
    )


def _lost_libraries(case: Case, names: Sequence[str]) -> Iterator[str]:
    build, libraries = case.facts.get(TorchBuild), case.facts.get(Libraries)
    if build is None or libraries is None:
        return
    for item in libraries.unresolved:
        if expected_owner(item.soname, build.cuda_major) in names:
            yield f"soname:{item.soname}"


def _install(case: Case, missing: Sequence[Unmet]) -> Remediation:
    if any(item.name == "torch" for item in missing):
        # A bare `torch` would be the default index's build, of whatever CUDA major that is today.
        return restore_or(case, "install the torch build that this stack was made with, local part included", [])
    asked = _asked(missing)
    pins = {item.name: item.pin for item in missing if item.pin and len(asked[item.name]) == 1}
    command = install_command(case, pins.items()) if len(pins) == len(asked) else _ranges(case, asked)
    return restore_or(case, "install what is missing", [command])


def _mismatch(case: Case, unmet: Sequence[Unmet], severity: Severity, consequence: str) -> Finding:
    names = list(dict.fromkeys(item.name for item in unmet))
    first = f"{unmet[0].text}, and {unmet[0].installed} is installed"
    more = f" ({counted(len(unmet) - 1, 'other requirement', 'is', 'are')} unmet too)" if len(unmet) > 1 else ""
    return Finding(
        code=CODE,
        name=NAME,
        severity=severity,
        confidence="high",
        title=first + more,
        subject=", ".join(names),
        evidence=(*_evidence(unmet), *((consequence,) if consequence else ())),
        remediation=_align(case, unmet),
        causes=tuple(f"requirement:{name}" for name in names),
        symptom_of=tuple(
            token
            for item in unmet
            for token in (f"version:{item.name}", f"shadow:{item.name}", f"companion:{item.requirer.name}:{item.name}")
        ),
    )


def _align(case: Case, unmet: Sequence[Unmet]) -> Remediation:
    wanted = {item.name: item.pin for item in unmet if item.pin and item.name != "torch"}
    text = "install the version that is asked for, or a requirer that accepts what is there"
    names = {item.name for item in unmet}
    if len(wanted) == len(names):
        return restore_or(case, text, [install_command(case, wanted.items())])
    if "torch" in names:
        # A range would bring the default index's build of torch, of whatever CUDA major that is today.
        return restore_or(case, text, [])
    return restore_or(case, text, [_ranges(case, _asked(unmet))])


def _asked(unmet: Sequence[Unmet]) -> dict[str, list[str]]:
    """Return name -> all that is asked of it, sorted; of several requirers none may be forgotten."""
    asked: dict[str, set[str]] = {item.name: set() for item in unmet}
    for item in unmet:
        asked[item.name].update(clause.strip() for clause in item.specifier.split(",") if clause.strip())
    return {name: sorted(clauses) for name, clauses in asked.items()}


def _ranges(case: Case, asked: Mapping[str, Sequence[str]]) -> str:
    specs = " ".join(shlex.quote(f"{name}{','.join(ranges)}") for name, ranges in sorted(asked.items()))
    return f"uv pip install --python {case.python} {specs}"


def _evidence(unmet: Sequence[Unmet]) -> tuple[str, ...]:
    lines = [
        f"{item.text}; {item.installed} is installed" if item.installed else f"{item.text}; not installed"
        for item in unmet[:_SHOWN]
    ]
    return (*lines, *((f"and {len(unmet) - _SHOWN} more",) if len(unmet) > _SHOWN else ()))
