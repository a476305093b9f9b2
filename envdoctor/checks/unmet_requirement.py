"""A declared requirement that is not met.

What it finds:
    Requires-Dist of every installed distribution, with its markers and with the extras that others ask of it, against
    what is installed: what is missing and what has another version. A version that the requirer's own source compares
    when it is imported (pydantic and pydantic-core, numba and numpy, the version tables of transformers) is an error,
    since that import raises; so is a part of transformer-engine of another version than transformer-engine itself.
    With a lock, a version conflict that the lock pins was measured and is not a finding; a required distribution that
    is not installed at all is one, lock or not.

Why it matters:
    `pip check` and `uv pip check` do not follow extras. torch asks for `cuda-toolkit[cublas,cudart,...]`, and eleven
    CUDA libraries hang on those extras alone: remove one, and both say that all is well.

Example:
    `nvidia-cufft-cu12` was removed; `import torch` fails, and every metadata check is clean. A lock was captured
    without typing-extensions: what is restored from it has every locked file, and `import torch` raises.

Fix:
    Install what is missing, at the version that is asked for. What a stack leaves out on purpose is a waiver with its
    reason in the profile, with the distribution as its subject.
"""

from collections.abc import Iterator, Sequence

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.remedies import install_command, restore_or, unless_outside
from envdoctor.analysis.unmet import Unmet
from envdoctor.analysis.unmet_kinds import UnmetKinds, enforced_here, raises_at_import, unmet_kinds
from envdoctor.analysis.variable_commands import leave_out_command
from envdoctor.analysis.version_ranges import disagreement, ranges_command
from envdoctor.catalog.cudalibs import expected_owner
from envdoctor.model.finding import Finding, Remediation, Severity
from envdoctor.model.frozen import replace
from envdoctor.model.wording import counted
from envdoctor.probes.loading.libraries import Libraries
from envdoctor.probes.loading.symbols import Symbols
from envdoctor.probes.loading.torch_build import TorchBuild
from envdoctor.probes.venv.distributions import Distributions

CODE = "ED406"
NAME = "unmet-requirement"
AREA = "Distributions"
_SHOWN = 8


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for each kind: what explains it, or what fixes it, differs."""
    kinds = unmet_kinds(case)
    # What a version that has to go asks for goes with it.
    replaced = {item.name for item in kinds.enforced}
    going = [item for item in kinds.other if item.requirer.name in replaced]
    compiled = _compiled_for_numpy_1(case, [item for item in kinds.other if item not in going])
    other = [item for item in kinds.other if item not in going + compiled]
    if kinds.torch:
        text = "install the torch build that this stack was made with, local part included"
        # A bare `torch` would be the default index's build, of whatever CUDA major that is today.
        yield _missing(case, kinds.torch, restore_or(case, text, []))
    if kinds.missing:
        yield _missing(case, kinds.missing, _install(case, kinds))
    yield from _holes(case, kinds)
    if kinds.of_intruders:
        yield _of_intruders(case, kinds.of_intruders)
    yield from _provided(kinds)
    yield from _leaked(case, kinds)
    if kinds.enforced:
        demands = enforced_here(case)
        why = dict.fromkeys(raises_at_import(item, demands) for item in kinds.enforced)
        yield _mismatch(case, kinds.enforced, "error", tuple(why))
    if kinds.compiler:
        severity, consequence = _compiler_severity(case)
        yield _mismatch(case, kinds.compiler, severity, (consequence,))
    if other:
        yield _mismatch(case, other, "warning", ())
    for owner in dict.fromkeys(item.requirer.name for item in compiled):
        found = _mismatch(case, [item for item in compiled if item.requirer.name == owner], "warning", ())
        yield replace(found, symptom_of=(*found.symptom_of, f"numpy-1:{owner}"))
    if going:
        yield _of_replaced(case, going)


def _compiled_for_numpy_1(case: CheckContext, unmet: Sequence[Unmet]) -> list[Unmet]:
    """Return what is told as that: the requirement `numpy<2` says no more."""
    symbols = case.facts.get(Symbols)
    owners = {user.owner for user in symbols.numpy_1} if symbols else set()
    return [item for item in unmet if item.name == "numpy" and item.requirer.name in owners]


def _compiler_severity(case: CheckContext) -> tuple[Severity, str]:
    wanted = case.profile.compile if case.profile else None
    compiles = wanted is not None and bool(wanted.threads or wanted.cache_minimum_entries or wanted.cache_bytes)
    return ("error" if compiles else "warning"), "import torch works; torch.compile fails or miscompiles"


def _missing(
    case: CheckContext,
    missing: Sequence[Unmet],
    remedy: Remediation,
    *,
    more: Sequence[str] = (),
    symptom_of: Sequence[str] = (),
) -> Finding:
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
        evidence=(*_evidence(missing), *more),
        remediation=remedy,
        causes=(*(f"requirement:{name}" for name in names), *_lost_libraries(case, names)),
        symptom_of=(*(f"dist:{name}" for name in names), *symptom_of),
    )


def _lost_libraries(case: CheckContext, names: Sequence[str]) -> Iterator[str]:
    build, libraries = case.facts.get(TorchBuild), case.facts.get(Libraries)
    if build is None or libraries is None:
        return
    for item in libraries.unresolved:
        if expected_owner(item.soname, build.cuda_major) in names:
            yield f"soname:{item.soname}"


def _install(case: CheckContext, kinds: UnmetKinds) -> Remediation:
    missing = kinds.missing
    asked = _asked(missing)
    pins = {item.name: item.pin for item in missing if item.pin and len(asked[item.name]) == 1}
    if len(pins) == len(asked):
        return restore_or(case, "install what is missing", [install_command(case, pins.items())])
    if told := disagreement(case, asked):
        return Remediation(text=told)
    if kinds.torch:
        text = "install what is missing, without dependencies, since one of them may bring another torch; check again"
        return restore_or(case, text, [_ranges(case, missing, "--no-deps ")])
    return restore_or(case, "install what is missing", [_ranges(case, missing)])


def _holes(case: CheckContext, kinds: UnmetKinds) -> Iterator[Finding]:
    """Yield one finding for each distribution that the lock leaves out, so that each can be waived with its reason."""
    file = case.profile.lock.file if case.profile else "the lock"
    for name in dict.fromkeys(item.name for item in kinds.holes):
        items = [item for item in kinds.holes if item.name == name]
        asked = _asked(items)[name]
        pin = items[0].pin if len(asked) == 1 else ""
        command = install_command(case, [(name, pin)]) if pin else _ranges(case, items)
        yield _missing(
            case,
            items,
            Remediation(
                text=f"Install it, then add it to {file}: a restore leaves it out again. If the stack does without it "
                f"on purpose, say so in a waiver of the profile: code {CODE}, subject {name}, and the reason",
                commands=(command,),
            ),
            more=(f"{file} does not have it either",),
        )


def _of_intruders(case: CheckContext, items: Sequence[Unmet]) -> Finding:
    requirers = sorted({item.requirer.name for item in items})
    return _missing(
        case,
        items,
        Remediation(
            text=f"Install nothing: {', '.join(requirers)} {'is' if len(requirers) == 1 else 'are'} to be uninstalled, "
            "and the requirement goes with it"
        ),
        symptom_of=[f"intruder:{name}" for name in requirers],
    )


def _of_replaced(case: CheckContext, items: Sequence[Unmet]) -> Finding:
    requirers = sorted({f"{item.requirer.name} {item.requirer.version}" for item in items})
    verb = "is" if len(requirers) == 1 else "are"
    found = _mismatch(case, items, "warning", ())
    text = f"Install nothing for it: {', '.join(requirers)} {verb} to be replaced, and the requirement goes with it"
    symptom_of = tuple(f"requirement:{item.requirer.name}" for item in items)
    return replace(found, remediation=Remediation(text=text), symptom_of=(*found.symptom_of, *symptom_of))


def _provided(kinds: UnmetKinds) -> Iterator[Finding]:
    for name, (module, provider) in kinds.provided.items():
        items = [item for item in kinds.provided_for if item.name == name]
        yield Finding(
            code=CODE,
            name=NAME,
            severity="note",
            confidence="high",
            title=f"{name} is not installed, and the module {module} is there: {provider} installs it",
            subject=name,
            evidence=_evidence(items),
            remediation=Remediation(
                text=f"Nothing to do: installing {name} would overwrite the files of {provider}. pip and uv go on "
                "calling the requirement unmet",
                safe=True,
            ),
        )


def _leaked(case: CheckContext, kinds: UnmetKinds) -> Iterator[Finding]:
    for folder, items in kinds.leaked.items():
        distributions = case.facts[Distributions].items
        origin = next(item.origin for item in distributions if item.site == folder)
        names = list(dict.fromkeys(item.name for item in items))
        first = items[0]
        state = f"and {first.installed} from {folder} comes first" if first.installed else "which is not installed"
        inside = all(item.installed for item in items)
        why = "the environment itself has what is asked for" if inside else f"only what {origin} brings asks for it"
        yield Finding(
            code=CODE,
            name=NAME,
            severity="warning" if inside else "error",
            confidence="high",
            title=f"{first.text}, {state}" + _more(items),
            subject=", ".join(names),
            evidence=_evidence(items),
            remediation=Remediation(
                text=f"Keep that folder out, and install nothing for it: {why}",
                commands=(leave_out_command(case, origin, folder),),
                safe=True,
            ),
            causes=tuple(f"requirement:{name}" for name in names),
            symptom_of=(f"shadow-folder:{folder}", f"leak-folder:{folder}", *(f"shadow:{name}" for name in names)),
        )


def _mismatch(case: CheckContext, unmet: Sequence[Unmet], severity: Severity, consequences: Sequence[str]) -> Finding:
    names = list(dict.fromkeys(item.name for item in unmet))
    return Finding(
        code=CODE,
        name=NAME,
        severity=severity,
        confidence="high",
        title=f"{unmet[0].text}, and {unmet[0].installed} is installed" + _more(unmet),
        subject=", ".join(names),
        evidence=(*_evidence(unmet), *consequences),
        remediation=_align(case, unmet),
        causes=tuple(f"requirement:{name}" for name in names),
        symptom_of=tuple(
            token
            for item in unmet
            for token in (f"version:{item.name}", f"shadow:{item.name}", f"companion:{item.requirer.name}:{item.name}")
        ),
    )


def _more(unmet: Sequence[Unmet]) -> str:
    return f" ({counted(len(unmet) - 1, 'other requirement', 'is', 'are')} unmet too)" if len(unmet) > 1 else ""


def _align(case: CheckContext, unmet: Sequence[Unmet]) -> Remediation:
    asked = _asked(unmet)
    if told := disagreement(case, asked):
        return Remediation(text=told)
    wanted = {item.name: item.pin for item in unmet if item.pin and item.name != "torch"}
    text = "install the version that is asked for, or a requirer that accepts what is there"
    if len(wanted) == len(asked):
        return unless_outside(case, asked, restore_or(case, text, [install_command(case, wanted.items())]))
    if "torch" in asked:
        # A range would bring the default index's build of torch, of whatever CUDA major that is today.
        return restore_or(case, text, [])
    return unless_outside(case, asked, restore_or(case, text, [_ranges(case, unmet)]))


def _asked(unmet: Sequence[Unmet]) -> dict[str, list[str]]:
    """Return name -> all that is asked of it, sorted; of several requirers none may be forgotten."""
    asked: dict[str, set[str]] = {item.name: set() for item in unmet}
    for item in unmet:
        asked[item.name].update(clause.strip() for clause in item.specifier.split(",") if clause.strip())
    return {name: sorted(clauses) for name, clauses in asked.items()}


def _ranges(case: CheckContext, unmet: Sequence[Unmet], flags: str = "") -> str:
    extras: dict[str, set[str]] = {item.name: set() for item in unmet}
    for item in unmet:
        extras[item.name].update(item.wanted_extras)
    return ranges_command(case, _asked(unmet), extras=extras, flags=flags)


def _evidence(unmet: Sequence[Unmet]) -> tuple[str, ...]:
    lines = [
        f"{item.text}; {item.installed} is installed" if item.installed else f"{item.text}; not installed"
        for item in unmet[:_SHOWN]
    ]
    return (*lines, *((f"and {len(unmet) - _SHOWN} more",) if len(unmet) > _SHOWN else ()))
