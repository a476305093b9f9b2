"""A distribution whose files are missing or changed.

What it finds:
    Files listed in a RECORD that are missing, have another size, or are not regular files, without another wheel that
    is known to write the same paths. Bytecode and console scripts are not counted. Modules without their source that
    are imported from bytecode (`compileall -b`) are one warning: no RECORD verifies it. A file that has its size since
    uv unpacked the wheel is worth a note: the wheel's own RECORD is wrong. Programs below a `bin` folder that nobody
    may execute are reported too.

Why it matters:
    An install that was killed half-way leaves complete metadata over missing files; pip and uv then call it satisfied
    for ever. A file edited in place also changes uv's cache behind its back (it is a hardlink), and every later venv.

Example:
    `uv pip sync` was killed: torch's dist-info is there, 6,562 of its files are not.

Fix:
    Force-reinstall the distribution (`--reinstall-package`); three or more are repaired at once, on a copy
    (`envdoctor repair`); or restore the profile.
"""

import shlex
from collections.abc import Iterator, Sequence

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.damage import Damage, damage_by_owner, file_tokens, listed, lost_to_others, sourceless
from envdoctor.analysis.remedies import reinstall_command, repair_or, restore_or, through_cache
from envdoctor.model.finding import Finding, Remediation
from envdoctor.model.frozen import replace
from envdoctor.model.verdict import BREAKS_IMPORT
from envdoctor.model.wording import counted
from envdoctor.probes.venv.installed_files import FileFault, InstalledFiles
from envdoctor.probes.venv.launchers import Launchers

CODE = "ED202"
NAME = "damaged-distribution"
AREA = "Installed files"
_MANY = 3
"""So many damaged distributions have one cause and are repaired at once, on a copy."""
_READ_FIRST = ("/site-packages/torch/__init__.py", "/site-packages/torch/version.py")


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for each damaged distribution."""
    launchers = case.facts.get(Launchers)
    # A script that cannot start what it names is told with the others of its kind; here too, where that is waived.
    stray = {f"bin/{script.name}" for script in launchers.stray if not script.foreign} if launchers else set()
    lost = {damage.owner for damage in lost_to_others(case)}
    # What another's uninstall took is told as one cause of its own.
    damages = [replace(one, missing=()) if one.owner in lost else one for one in damage_by_owner(case)]
    many = sum(_heals_on_a_copy(damage) for damage in damages) >= _MANY
    if compiled := sourceless(case):
        yield _from_bytecode(case, compiled)
    if locked := [damage for damage in damages if damage.locked]:
        yield _locked(case, locked)
    for damage in damages:
        if damage.published:
            yield _published(damage)
        broken = damage.missing + damage.changed
        if not broken:
            continue
        yield Finding(
            code=CODE,
            name=NAME,
            # A launcher is rewritten by tools that move a venv; no import reads it.
            severity="warning" if _launchers_alone(damage) else "error",
            confidence="high",
            title=f"{damage.owner} {damage.version}: {_what(damage)}",
            subject=damage.owner,
            evidence=tuple(_evidence(damage)),
            remediation=_remedy(case, damage, many=many),
            causes=(
                *(token for path in broken for token in file_tokens(path)),
                *_kinds(damage),
                f"dist:{damage.owner}",
                *((BREAKS_IMPORT,) if any(path.endswith(_READ_FIRST) for path in damage.missing) else ()),
            ),
            symptom_of=(
                f"links-gone:{damage.owner}",
                *((f"file:{path}" for path in broken) if stray.issuperset(broken) else ()),
            ),
        )


def _launchers_alone(damage: Damage) -> bool:
    return all(path.startswith("bin/") for path in damage.missing + damage.changed)


def _heals_on_a_copy(damage: Damage) -> bool:
    # What is told of its metadata as well (ED205) has the same command.
    metadata_alone = all(".dist-info/" in path for path in damage.missing + damage.changed)
    return not (_launchers_alone(damage) or metadata_alone or damage.cached_at or damage.in_the_way)


def _from_bytecode(case: CheckContext, faults: list[FileFault]) -> Finding:
    """Return the finding of all modules whose source is missing: one deletion took them all."""
    owners = {owner.name: owner.version for owner in case.facts[InstalledFiles].owners}
    pins = [(name, owners.get(name, "")) for name in dict.fromkeys(fault.owner for fault in faults)]
    of = " ".join(pins[0]).strip() if len(pins) == 1 else counted(len(pins), "distribution")
    return Finding(
        code=CODE,
        name=NAME,
        severity="warning",
        confidence="high",
        title=f"{counted(len(faults), 'module')} of {of} without source: what is imported is bytecode that nothing "
        "verifies",
        subject=", ".join(name for name, _ in pins),
        evidence=(
            f"missing, with a .pyc in its place: {listed(fault.path for fault in faults)}",
            "no RECORD tells whether the bytecode is whole and of that source",
        ),
        remediation=restore_or(
            case,
            "nothing, if the sources were deleted on purpose to make an image smaller; else force-reinstall "
            + (pins[0][0] if len(pins) == 1 else "what they belong to"),
            [reinstall_command(case, pins)],
        ),
        causes=tuple(f"bytecode:{fault.path}" for fault in faults),
    )


def _locked(case: CheckContext, damages: Sequence[Damage]) -> Finding:
    """Return the finding of all programs without execute permission: one copy or one archive has lost it."""
    paths = [path for damage in damages for path in damage.locked]
    full = [path if path.startswith("/") else f"{case.facts.target}/{path}" for path in paths]
    programs, one = counted(len(paths), "program"), damages[0]
    whose = f"{one.owner} {one.version}: {programs} of it"
    of = whose if len(damages) == 1 else f"{programs} of {len(damages)} distributions"
    return Finding(
        code=CODE,
        name=NAME,
        # Some package may set the permission itself before it starts its program.
        severity="warning",
        confidence="high",
        title=f"{of} may not be executed by anybody",
        subject=", ".join(damage.owner for damage in damages),
        evidence=(f"no execute permission: {listed(paths)}",),
        # Where uv linked it from its cache, a reinstall would link the same file again.
        remediation=Remediation(
            text=f"let {'it' if len(paths) == 1 else 'them'} be executed again",
            commands=(f"chmod a+x {' '.join(map(shlex.quote, full))}",),
            safe=True,
        ),
        causes=tuple(f"locked:{path}" for path in paths),
    )


def _published(damage: Damage) -> Finding:
    return Finding(
        code=CODE,
        name=NAME,
        severity="note",
        confidence="high",
        title=f"{damage.owner} {damage.version} was published with a RECORD that is wrong about "
        f"{counted(len(damage.published), 'file')}",
        subject=damage.owner,
        evidence=(
            f"another size than RECORD says: {listed(damage.published)}",
            f"uv's cache has it at this size since it unpacked that wheel: {damage.published_at}",
        ),
        remediation=Remediation(
            text=f"Nothing is damaged, and a reinstall changes nothing. What the wheel's RECORD says of these files "
            f"cannot be verified; tell the project that publishes {damage.owner}",
            safe=True,
        ),
        causes=tuple(f"published:{path}" for path in damage.published),
    )


def _remedy(case: CheckContext, damage: Damage, *, many: bool) -> Remediation:
    pins = [(damage.owner, damage.version)]
    if damage.cached_at:
        return through_cache(case, pins, [reinstall_command(case, pins)])
    command = reinstall_command(case, pins)
    # "2.13.0+cpu" may come from a folder that only pip's configuration names, which uv does not read.
    on_a_copy = (many and _heals_on_a_copy(damage)) or ("+" in damage.version and not damage.in_the_way)
    choose = repair_or if on_a_copy else restore_or
    text = f"force-reinstall {damage.owner}; a plain install changes nothing, as its metadata says it is there"
    return choose(case, text, [command])


def _kinds(damage: Damage) -> Iterator[str]:
    """Yield what is wrong with each file, as tokens: a baseline and a repair tell by them that it got worse."""
    yield from (f"missing:{path}" for path in damage.missing)
    not_files = frozenset(damage.not_files)
    yield from (f"{'not-a-file' if path in not_files else 'changed'}:{path}" for path in damage.changed)


def _what(damage: Damage) -> str:
    parts = []
    if damage.missing:
        parts.append(f"{len(damage.missing)} of {counted(damage.files, 'file')} missing")
    if damage.changed:
        parts.append(f"{len(damage.changed)} of {counted(damage.files, 'file')} changed")
    return ", ".join(parts)


def _evidence(damage: Damage) -> Iterator[str]:
    if damage.missing:
        yield f"missing: {listed(damage.missing)}"
    if damage.in_the_way:
        yield f"a file or a link to nowhere is where a folder should be: {listed(damage.in_the_way)}"
    if damage.not_files:
        yield f"not a regular file: {listed(damage.not_files)}"
    if resized := [path for path in damage.changed if path not in damage.not_files]:
        yield f"another size than RECORD says: {listed(resized)}"
    if damage.cached_at:
        told = "the same bytes are in uv's cache: an edit in place, or a wheel whose own RECORD is wrong"
        yield f"{told}: {damage.cached_at}"
    if damage.missing and len(damage.missing) > damage.files // 2:
        told = "an interrupted install or the uninstall of another wheel with the same paths"
        yield f"most of it is missing, as after {told}"
