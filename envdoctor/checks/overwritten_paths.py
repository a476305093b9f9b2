"""One path, two owners, different bytes.

What it finds:
    Paths in the RECORD of several installed distributions that do not agree on the contents, and whose bytes are on
    disk, identified by size and, for small ties, by hash. Bytes of none of them are an error, whichever is meant.

Why it matters:
    The last one installed won, silently; with both in one command the winner is random. Uninstalling either deletes
    the file of the other. CUDA-13 builds of cuDNN, NCCL and cuSPARSELt under a CUDA-12 torch still import.

Example:
    `nvidia-nccl-cu12` and `nvidia-nccl-cu13` both own `nvidia/nccl/lib/libnccl.so.2`; torch is a cu128 build, and the
    bytes on disk are the cu13 wheel's.

Fix:
    Two steps in this order: uninstall the owners that are not meant to be here, then reinstall the one that is, by
    force, because the first step deletes the shared files. `envdoctor restore` does both on a copy.
"""

from collections.abc import Iterator, Mapping, Sequence

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.damage import file_tokens, site_relative
from envdoctor.analysis.file_conflicts import FileConflict, file_conflicts
from envdoctor.analysis.remedies import exchange_commands, reinstall_command, repair_or, restore_or, unless_outside
from envdoctor.analysis.unmet import wanted_by_extras
from envdoctor.model.finding import Confidence, Finding, Remediation, Severity
from envdoctor.model.wording import counted
from envdoctor.probes.venv.contested_paths import Contested

CODE = "ED203"
NAME = "file-conflict"
AREA = "Installed files"
_SHOWN = 6


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for the overwritten, one for those right until the next uninstall, one for each tie."""
    pairs = [pair for pair in file_conflicts(case) if not pair.module]
    known = [pair for pair in pairs if pair.wanted]
    overwritten = [pair for pair in known if pair.foreign]
    at_risk = [pair for pair in known if not pair.foreign]
    unknown = [pair for pair in pairs if not pair.wanted]
    if overwritten:
        foreign = sum(len(pair.foreign) for pair in overwritten)
        verb = "holds" if foreign == 1 else "hold"
        title = f"{counted(foreign, 'file')} of {_names(overwritten)} {verb} the bytes of {_others(overwritten)}"
        yield _finding(case, overwritten, "error", "high", title)
    if at_risk:
        count = sum(len(pair.paths) for pair in at_risk)
        others = _others(at_risk)
        title = (
            f"{counted(count, 'file')} of {_names(at_risk)} also owned by {others}, whose uninstall would delete them"
        )
        # Where something requires every one of the others, there is nothing to be done about it.
        kept = all(len(pair.required) == len(pair.unwanted) for pair in at_risk)
        yield _finding(case, at_risk, "note" if kept else "warning", "high", title)
    for pair in unknown:
        owned = counted(len(pair.paths), "file", "is", "are")
        names = [name for name, _ in pair.owners]
        if pair.spoiled:
            held = counted(len(pair.spoiled), "file", "holds", "hold")
            yield _finding(
                case, [pair], "error", "high", f"{held} the bytes of none of {' and '.join(names)}, its owners"
            )
            continue
        title = f"{owned} owned by {' and '.join(names)} at once"
        yield _finding(case, [pair], "warning", "low", title)


def _names(pairs: Sequence[FileConflict]) -> str:
    return ", ".join(pair.wanted for pair in pairs)


def _others(pairs: Sequence[FileConflict]) -> str:
    return ", ".join(sorted({name for pair in pairs for name in pair.unwanted}))


def _finding(
    case: CheckContext, pairs: Sequence[FileConflict], severity: Severity, confidence: Confidence, title: str
) -> Finding:
    paths = [path for pair in pairs for path in (pair.foreign if pair.wanted and pair.foreign else pair.paths)]
    return Finding(
        code=CODE,
        name=NAME,
        severity=severity,
        confidence=confidence,
        title=title,
        subject=", ".join(pair.wanted or " / ".join(name for name, _ in pair.owners) for pair in pairs),
        evidence=(*_evidence(pairs), *_wanted_by_extras(case, pairs)),
        remediation=_remedy(case, pairs),
        causes=(
            *(token for path in paths for token in (*file_tokens(path.path), f"bytes:{path.path}")),
            *(f"intruder:{name}" for pair in pairs for name in pair.intruders),
        ),
    )


def _evidence(pairs: Sequence[FileConflict]) -> Iterator[str]:
    for pair in pairs:
        if pair.wanted:
            yield f"{pair.wanted} {pair.version(pair.wanted)} is the expected owner: {pair.told_by}"
        ranked = sorted(
            (pair.foreign if pair.wanted else pair.spoiled) or pair.paths,
            key=lambda item: (".so" not in item.path, item.path),
        )
        for item in ranked[: max(2, _SHOWN // len(pairs))]:
            yield f"{site_relative(item.path)}: {_on_disk(item)}"
        if (more := len(ranked) - max(2, _SHOWN // len(pairs))) > 0:
            yield f"and {more} more paths of {' and '.join(name for name, _ in pair.owners)}"


def _wanted_by_extras(case: CheckContext, pairs: Sequence[FileConflict]) -> Iterator[str]:
    """Yield who is left without what is to be uninstalled, by an extra: no metadata tells afterwards."""
    by: dict[str, list[str]] = {}
    for name, extra in wanted_by_extras(case, {name for pair in pairs for name in pair.intruders}).items():
        by.setdefault(extra, []).append(name)
    for extra, names in by.items():
        yield (
            f"{extra} asks for {', '.join(sorted(names))}: if it was installed with that extra it loses them, and no "
            "metadata can tell; give it an environment of its own"
        )


def _on_disk(item: Contested) -> str:
    owners = " and ".join(f"{claim.owner} {claim.version}" for claim in item.claims)
    if item.told_by == "missing":
        return f"owned by {owners}; missing"
    if item.told_by == "not told":
        return f"owned by {owners}, of equal size; only `--deep` can determine whose bytes are on disk"
    bytes_of = " and ".join(item.on_disk) if item.on_disk else "neither"
    return f"owned by {owners}; the bytes on disk are of {bytes_of} (identified by {item.told_by})"


def _remedy(case: CheckContext, pairs: Sequence[FileConflict]) -> Remediation:
    if not all(pair.wanted for pair in pairs):
        names = " and ".join(name for name, _ in pairs[0].owners)
        if stays := " and ".join(f"{name} is required by {by}, and stays" for name, by in pairs[0].required):
            return Remediation(
                text=f"Could not determine which of {names} the shared files belong to. {stays}. After an uninstall of "
                "either, force-reinstall the other: the uninstall deletes the shared files",
                safe=True,
            )
        return Remediation(
            text=f"Could not determine which of {names} belongs here. Keep one: uninstall the others, then "
            "force-reinstall the one you keep, because the uninstall deletes the shared files",
        )
    wanted = [(pair.wanted, pair.version(pair.wanted)) for pair in pairs]
    required = {name: by for pair in pairs for name, by in pair.required}
    others = sorted({name for pair in pairs for name in pair.unwanted} - required.keys())
    if not others:
        return _keep(case, pairs, wanted, required)
    remedy = (restore_or if required else repair_or)(
        case,
        "first uninstall the distributions that do not belong here, then force-reinstall the owners: the "
        "uninstall deletes the shared files, so the second step must follow",
        exchange_commands(case, others, wanted),
    )
    return unless_outside(case, others, remedy)


def _keep(
    case: CheckContext, pairs: Sequence[FileConflict], wanted: Sequence[tuple[str, str]], required: Mapping[str, str]
) -> Remediation:
    """Return the remedy where each of the other owners has to stay: the wanted files are written last."""
    name, by = next(iter(required.items()))
    stays = f"{name} stays, since {by} requires it; another version of it may leave these paths alone"
    if not any(pair.foreign for pair in pairs):
        return Remediation(
            text=f"Nothing is wrong as it is. {stays}. After an uninstall of either, force-reinstall the other",
            safe=True,
        )
    return restore_or(
        case,
        f"force-reinstall {', '.join(owner for owner, _ in wanted)}, which writes its files last. {stays}",
        [reinstall_command(case, wanted)],
    )
