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
"""Stands among the codes let through when the ranks of the job do not run one stack, or could not be compared."""
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


def job_here(host: Host) -> RankedJob | None:
    """Return the job that this process is a rank of; None for one that is alone or is not compared.

    Raises UsageError for a variable or a key of the configuration that has no such value.
    """
    configured = load(host.cwd).ranks
    environ = {SWITCH: configured, **host.environ} if configured else host.environ
    return job_of(environ)


def sheet_text(facts: "Fingerprint") -> str:
    """Return the sheet of a fingerprint as `Own` has it."""
    from envdoctor.compare.sheet import sheet_of  # noqa: PLC0415 - a process that is alone has none
    from envdoctor.model.codec import encode  # noqa: PLC0415

    return json.dumps(encode(sheet_of(facts)), sort_keys=True)


def compared(job: RankedJob, host: Host, own: Own, profile: str, say: Callable[[str], None]) -> int:
    """Meet the other ranks; return the exit code for all of them: 0 where all start. Rank 0 prints what differs.

    say: prints on stderr.
    """
    note = _note(say, job)
    if not job.places:
        if not job.rank:
            where = "nothing says where rank 0 is; set MASTER_ADDR and MASTER_PORT as for torch.distributed"
            say(f"note: envdoctor gate: the {job.size} ranks of this job were not compared: {where}")
        return 0
    code = _host_of(job, host, own, profile, say) if not job.rank else _guest_of(job, own, say, note)
    if not code:
        os.environ[DONE] = job.mark
    return code


def refused(host: Host, code: int, profile: str, say: Callable[[str], None]) -> None:
    """Let the other ranks know that this one does not start, without having been examined."""
    from envdoctor.errors import EnvdoctorError  # noqa: PLC0415

    try:
        if job := job_here(host):
            compared(job, host, Own(code=code), profile, say)
    except (EnvdoctorError, OSError):
        return  # they name it when their time is up


def _host_of(job: RankedJob, host: Host, own: Own, profile: str, say: Callable[[str], None]) -> int:
    from envdoctor.ranks.attendance import attendance_of, sheet_of_text  # noqa: PLC0415
    from envdoctor.ranks.meeting import Meeting  # noqa: PLC0415
    from envdoctor.ranks.sockets import NoPlaceError  # noqa: PLC0415
    from envdoctor.report import ranks_text  # noqa: PLC0415

    sheet = sheet_of_text(own.sheet) if own.sheet else None
    ignored = (*load(host.cwd).ranks_ignore, *filter(None, map(str.strip, host.environ.get(IGNORE, "").split(","))))

    def shown(verdict: "JobVerdict") -> None:
        # Alone and refused, it has said why already.
        alone = own.code and len(verdict.came) + len(verdict.ended) == 1
        if verdict.code and not alone and not _same_refusal(verdict):
            say(ranks_text.render(verdict, profile, job.timeout))

    def describe(ranks: Sequence[int]) -> str:
        return ranks_text.named(ranks, meeting.came)

    meeting = Meeting(job=job, ignored=ignored, say=_note(say, job), describe=describe)
    try:
        return meeting.hold(attendance_of(_greeting(job, own)), sheet, shown).code
    except NoPlaceError as error:
        say(
            f"error: envdoctor gate: rank 0 cannot listen for the others of {job.size} ranks: {error}\n\n"
            "hint: name a free port: `export ENVDOCTOR_RANKS_PORT=29600`, on every rank; `export ENVDOCTOR_RANKS=off` "
            "compares no ranks"
        )
        return _NOT_COMPARED


def _same_refusal(verdict: "JobVerdict") -> bool:
    """Tell whether all ranks are there and are refused for one and the same: the report of rank 0 says it all."""
    whole = not (verdict.missing or verdict.ended or verdict.agreement.differs)
    return whole and len(verdict.refused) == verdict.size and len({one.found for one in verdict.came.values()}) == 1


def _guest_of(job: RankedJob, own: Own, say: Callable[[str], None], note: Callable[[str], None]) -> int:
    from envdoctor.ranks.joining import join  # noqa: PLC0415

    outcome = join(job, _greeting(job, own), own.sheet, note, _BRIEF_SECONDS if own.code else None)
    if outcome.code is not None:
        return outcome.code
    if not own.code:
        who = f"rank {job.rank} of {job.size}"
        say(
            f"error: envdoctor gate: {who} was not compared with the others: {outcome.problem}\n\n"
            "hint: look at the launcher's log of rank 0, and whether the gate is in its environment; "
            "`export ENVDOCTOR_RANKS=off` compares no ranks"
        )
    return _NOT_COMPARED


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
    from envdoctor.facts.launch import local_rank  # noqa: PLC0415

    def note(text: str) -> None:
        if not job.rank or not local_rank(os.environ):
            say(f"note: envdoctor gate: {text}")

    return note
