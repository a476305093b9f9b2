"""The gate and the other ranks of the job: each says what its stack is before the process group forms.

Rank 0 compares and prints one table where they differ; the others hear whether they may start.
"""

import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from envdoctor.documents.project_config import load
from envdoctor.facts.host import Host
from envdoctor.model.frozen import frozen
from envdoctor.ranks.job import DONE, IGNORE, SWITCH, RankedJob, job_of

if TYPE_CHECKING:
    from envdoctor.model.fingerprint import Fingerprint
    from envdoctor.ranks.attendance import JobVerdict

DIFFERENT = "ranks-differ"
"""Stands among the codes let through when the ranks of the job do not run one stack, or one of them is refused."""
_NOT_COMPARED = 3  # ExitCode.UNKNOWN, without importing it
_BRIEF_SECONDS = 5.0
"""How long a rank that does not start anyway looks for rank 0."""


@frozen
class Own:
    """What this rank says to the others."""

    code: int
    """The exit code of its own verdict."""
    found: tuple[str, ...] = ()
    """Codes of its findings."""
    sheet: str = ""
    """Its sheet as JSON; empty where it could not be examined."""
    starts: bool = False
    """It goes on whatever the others are: mode "warn"."""


def job_here(host: Host) -> RankedJob | None:
    """Return the job that this process is a rank of; None for one that is alone or is not compared.

    Raises UsageError for a variable or a key of the configuration that has no such value.
    """
    from envdoctor.facts.launch import launch_of  # noqa: PLC0415 - `gate` has loaded it

    configured = load(host.cwd).ranks
    environ = {SWITCH: configured, **host.environ} if configured else host.environ
    launch = launch_of(host)
    job = job_of(environ, launch.by if launch is not None and launch.ends else "")
    if job is not None:
        _ignored(host)
    return job


def sheet_text(facts: "Fingerprint") -> str:
    """Return the sheet of a fingerprint as `Own` has it."""
    from envdoctor.compare.sheet import sheet_of  # noqa: PLC0415 - a process that is alone has none
    from envdoctor.model.codec import encode  # noqa: PLC0415

    return json.dumps(encode(sheet_of(facts)), sort_keys=True)


def compared(job: RankedJob, host: Host, own: Own, profile: str, say: Callable[[str], None]) -> int:
    """Meet the other ranks; return the exit code for all of them: 0 where all start. Rank 0 prints what differs.

    Ranks that did not meet start, and it is said who is missing; where that is not enough (`require`) they do not.
    say: prints on stderr.
    """
    if not job.places:
        code = _NOT_COMPARED if job.required else 0
        if not job.rank:
            where = "nothing says where rank 0 is; set MASTER_ADDR and MASTER_PORT as for torch.distributed"
            kind = "error" if code else "note"
            say(f"{kind}: envdoctor gate: the {job.size} ranks of this job were not compared: {where}")
    else:
        code = _guest_of(job, own, say) if job.rank else _host_of(job, host, own, profile, say)
    if own.starts or not (code or own.code):
        os.environ[DONE] = job.mark
    return code


def not_examined(own: Own, profile: str, say: Callable[[str], None]) -> None:
    """Let the other ranks know that this one was not examined, and whether it starts."""
    from envdoctor.errors import EnvdoctorError  # noqa: PLC0415

    try:
        host = Host.current()
        if job := job_here(host):
            compared(job, host, own, profile, say)
    except (EnvdoctorError, OSError):
        return  # they name it when their time is up


def _ignored(host: Host) -> tuple[str, ...]:
    """Return the facts that may differ. Raises UsageError for one that is none."""
    told = host.environ.get(IGNORE, "").split(",")
    found = (*load(host.cwd).ranks_ignore, *filter(None, map(str.strip, told)))
    if found:
        from envdoctor.compare.sheet import ORDER, is_fact  # noqa: PLC0415 - few ignore any
        from envdoctor.errors import UsageError  # noqa: PLC0415

        if wrong := next((fact for fact in found if not is_fact(fact)), None):
            facts = ", ".join(f"`{name}NAME`" if name.endswith(" ") else f"`{name}`" for name in ORDER)
            raise UsageError(f"`{wrong}` of ranks-ignore or {IGNORE} is no fact of a stack", f"it is one of {facts}")
    return found


def _host_of(job: RankedJob, host: Host, own: Own, profile: str, say: Callable[[str], None]) -> int:
    from envdoctor.ranks.attendance import attendance_of, sheet_of_text  # noqa: PLC0415
    from envdoctor.ranks.meeting import Meeting  # noqa: PLC0415
    from envdoctor.ranks.sockets import NoPlaceError  # noqa: PLC0415
    from envdoctor.report import ranks_text  # noqa: PLC0415

    sheet = sheet_of_text(own.sheet) if own.sheet else None

    def shown(verdict: "JobVerdict") -> None:
        # Alone and refused, it has said why already.
        alone = own.code and len(verdict.came) + len(verdict.ended) == 1
        if not alone and not _same_refusal(verdict) and (text := ranks_text.render(verdict, profile, job)):
            say(text)

    def describe(ranks: Sequence[int]) -> str:
        return ranks_text.named(ranks, meeting.came)

    meeting = Meeting(job=job, ignored=_ignored(host), say=_note(say, job), describe=describe)
    try:
        return meeting.hold(attendance_of(_greeting(job, own)), sheet, shown).code
    except NoPlaceError as error:
        hint = (
            "give the job names of its own, in front of its launcher: `export "
            "ENVDOCTOR_RANKS_KEY=$(cat /proc/sys/kernel/random/uuid)`"
            if job.on_node
            else "name a free port: `export ENVDOCTOR_RANKS_PORT=29600`, on every rank"
        )
        what = f"rank 0 cannot listen for the others of {job.size} ranks: {error}"
        return _not_met(job, own, say, what, f"{hint}; `export ENVDOCTOR_RANKS=off` compares no ranks")


def _same_refusal(verdict: "JobVerdict") -> bool:
    """Tell whether all ranks are there and are refused for one and the same: the report of rank 0 says it all."""
    whole = not (verdict.missing or verdict.ended or verdict.agreement.differs)
    return whole and len(verdict.refused) == verdict.size and len({one.found for one in verdict.came.values()}) == 1


def _guest_of(job: RankedJob, own: Own, say: Callable[[str], None]) -> int:
    from envdoctor.ranks.joining import join  # noqa: PLC0415

    outcome = join(job, _greeting(job, own), own.sheet, _note(say, job), _BRIEF_SECONDS if own.code else None)
    if outcome.code is not None:
        return outcome.code
    route = f", and whether {job.where} can be reached from here (ENVDOCTOR_RANKS_PORT names a port)"
    return _not_met(
        job,
        own,
        say if job.required else _first_here(say),
        f"rank {job.rank} of {job.size} was not compared with the others: {outcome.problem}",
        f"look at the launcher's log of rank 0, whether the gate is in its environment{route if job.where else ''}; "
        "`export ENVDOCTOR_RANKS=off` compares no ranks",
    )


def _not_met(job: RankedJob, own: Own, say: Callable[[str], None], what: str, hint: str) -> int:
    """Say that this rank met nobody; return the exit code: what was not seen ends no job that does not ask for it."""
    if not own.code:
        kind, end = ("error", "") if job.required else ("warning", "; it starts all the same")
        say(f"{kind}: envdoctor gate: {what}{end}\n\nhint: {hint}")
    return _NOT_COMPARED if job.required else 0


def _greeting(job: RankedJob, own: Own) -> dict[str, Any]:
    """Return what this rank says of itself, with the keys of `Attendance`."""
    import hashlib  # noqa: PLC0415 - loaded by now

    return {
        "rank": job.rank,
        "host": os.uname().nodename,
        "prefix": sys.prefix,
        "code": own.code,
        "found": list(own.found),
        "sheet": hashlib.sha256(own.sheet.encode()).hexdigest() if own.sheet else "",
    }


def _note(say: Callable[[str], None], job: RankedJob) -> Callable[[str], None]:
    said = say if not job.rank else _first_here(say)
    return lambda text: said(f"note: envdoctor gate: {text}")


def _first_here(say: Callable[[str], None]) -> Callable[[str], None]:
    """Return what says something on the first rank of each node."""
    from envdoctor.facts.launch import local_rank  # noqa: PLC0415

    return (lambda _: None) if local_rank(os.environ) else say
