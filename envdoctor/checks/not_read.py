"""Something of the environment that could not be read.

What it finds:
    RECORDs, METADATA and other files of dist-info folders that cannot be read or make no sense (no permission, a FIFO
    or a folder in a file's place, rows that are not rows), installed files that this user may not read, and with
    `--deep` those that could not be hashed. Code that may not be read is an error, since importing it fails, and so is
    METADATA, without which importlib.metadata finds no version.

Why it matters:
    Everything else in the report is said without them: what they hide cannot be determined from here.

Example:
    Row 12 of a RECORD is cut off in the middle; a package was installed by another user with umask 077.

Fix:
    Let the file or folder be read again (`chmod`), run as the owner of the venv, or force-reinstall the distribution.
    What a link leads to outside of the environment is its owner's to open.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence

from envdoctor.analysis.context import CheckContext, DoesNotApplyError
from envdoctor.analysis.damage import file_tokens, listed
from envdoctor.analysis.remedies import reinstall_command, restore_or
from envdoctor.analysis.taken_away import unparsable_records
from envdoctor.checks.altered_contents import deep_files
from envdoctor.model.finding import Finding, Remediation, Severity
from envdoctor.model.pattern import pattern
from envdoctor.model.verdict import BREAKS_IMPORT
from envdoctor.model.wording import counted
from envdoctor.probes.venv.barriers import Barrier
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.probes.venv.installed_files import InstalledFiles
from envdoctor.probes.venv.search_path import SearchPath
from envdoctor.probes.venv.system_packages import SystemPackages

CODE = "ED208"
NAME = "unreadable-file"
AREA = "Installed files"
_SHOWN = 6
# Without METADATA importlib.metadata finds no version.
_NEEDED = pattern(r"\.(?:py|pyc|so)(?:\.\d+)*$|\.dist-info(?:/METADATA)?$")


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for each distribution with files that may not be read, and one for everything else."""
    yield from _barred(case)
    gaps = list(_gaps(case))
    if not gaps:
        return
    more = (f"and {len(gaps) - _SHOWN} more",) if len(gaps) > _SHOWN else ()
    yield Finding(
        code=CODE,
        name=NAME,
        severity="warning",
        confidence="high",
        title=f"{counted(len(gaps), 'thing')} of the environment could not be read",
        subject="environment",
        evidence=(*gaps[:_SHOWN], *more),
        remediation=restore_or(
            case,
            "run envdoctor as the owner of the venv; force-reinstall what is damaged, or rebuild the venv",
            list(_reinstalls(case)),
        ),
    )


def _barred(case: CheckContext) -> Iterator[Finding]:
    files = case.facts[InstalledFiles]
    by_owner: dict[str, dict[str, Barrier]] = {}
    for fault in files.faults:
        if fault.kind == "unreadable" and fault.barrier is not None:
            by_owner.setdefault(fault.owner, {})[fault.path] = fault.barrier
    for closed in files.closed:
        by_owner.setdefault(closed.owner, {})[closed.path] = closed.barrier
    installed = case.facts[Distributions]
    for owner, barred in sorted(by_owner.items()):
        item = installed.active(owner)
        # Metadata that another stands before is read by nobody; a folder of another place is on sys.path all the same.
        active = f"{item.site}/{item.folder}".removeprefix(f"{case.facts.target}/") if item else "none"
        needed = any(_NEEDED.search(path) and (".dist-info" not in path or path.startswith(active)) for path in barred)
        yield _may_not(case, owner, barred, "error" if needed else "warning")


def _may_not(case: CheckContext, owner: str, barred: Mapping[str, Barrier], severity: Severity) -> Finding:
    barriers = {barrier.path: barrier for barrier in barred.values()}
    paths = list(barred)
    return Finding(
        code=CODE,
        name=NAME,
        severity=severity,
        confidence="high",
        title=f"{_counted(paths)} of {owner} may not be read by this user",
        subject=owner,
        evidence=(
            *(f"{at.path}: {at.mode}, owner uid {at.uid}" for at in list(barriers.values())[:_SHOWN]),
            f"behind that: {listed(paths)}",
        ),
        remediation=_opening(case, owner, list(barriers.values())),
        causes=(
            *(token for path in paths for token in file_tokens(path)),
            f"dist:{owner}",
            *((BREAKS_IMPORT,) if any(path.endswith("/site-packages/torch/__init__.py") for path in paths) else ()),
        ),
    )


def _opening(case: CheckContext, owner: str, barriers: Sequence[Barrier]) -> Remediation:
    """Return what opens the files; nobody is told to open a folder that is not the environment's."""
    target = case.facts.target
    outside = [at.path for at in barriers if at.path != target and not at.path.startswith(f"{target}/")]
    if outside:
        return Remediation(
            text=f"{outside[0]} is outside the environment, and who may read it is for its owner to say; or install "
            f"{owner} into the environment itself"
        )
    mine = all(barrier.mine for barrier in barriers)
    paths = " ".join(shlex.quote(barrier.path) for barrier in barriers)
    return Remediation(
        text="let it be read again"
        if mine
        else "its owner or root can let it be read; or run as the user that the venv belongs to",
        commands=(f"{'' if mine else 'sudo '}chmod u+w,a+rX {paths}",),
        safe=True,
    )


def _counted(paths: Sequence[str]) -> str:
    folders = [path for path in paths if path.endswith(".dist-info")]
    files = len(paths) - len(folders)
    return " and ".join(
        [*(["the metadata folder"] if folders else []), *([counted(files, "file")] if files or not folders else [])]
    )


def _reinstalls(case: CheckContext) -> Iterator[str]:
    """Yield the command for distributions with a RECORD that no installer can read either."""
    items = [item for item in case.facts[Distributions].items if not item.shadowed]
    if pins := [(item.name, item.version) for item in items if unparsable_records(case, item.name)]:
        yield reinstall_command(case, pins)


def _gaps(case: CheckContext) -> Iterator[str]:
    yield from case.facts[SearchPath].unreadable
    files = case.facts[InstalledFiles]
    # Each is told with the command that opens it.
    closed = [item.path if item.path.startswith("/") else f"{case.facts.target}/{item.path}" for item in files.closed]
    for line in (*case.facts[Distributions].unreadable, *files.malformed):
        if not any(f"{path}: " in line or f"{path}/" in line for path in closed):
            yield line
    yield from case.facts[SystemPackages].unreadable
    unread = [fault for fault in files.faults if fault.kind == "unreadable"]
    yield from (f"{fault.owner}: {fault.path}: no access" for fault in unread if fault.barrier is None)
    try:
        deep = deep_files(case)
    except DoesNotApplyError:
        return
    told = {fault.path for fault in unread}
    yield from (f"{item.owner}: {item.path}: {item.reason}" for item in deep.unverified if item.path not in told)
