"""The ranks of a job beside each other, as text: one table, then the command for each host that needs one.

An error where the job is refused, a warning where not all were compared, a note where a fact was read by none.
"""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence

from envdoctor.compare.majority import ComparedFact, Stated
from envdoctor.compare.sheet import family_of, setting_of
from envdoctor.model.wording import counted
from envdoctor.ranks.attendance import Attendance, JobVerdict
from envdoctor.ranks.job import RankedJob
from envdoctor.report.style import printable

_LONGEST, _ROWS = 44, 30
_OF_VENV = frozenset(
    ("torch", "CUDA of torch", "commit of torch", "Python", "NCCL", "bytes of NCCL", "stack", "library", "package")
)
_HEADS = ("fact", "most ranks", "others", "who")
_TIED = ("fact", "one value", "another", "who")


def render(verdict: JobVerdict, profile: str, job: RankedJob) -> str:
    """Return the text, without a newline at its end; empty where all were compared, and start."""
    unread = [f"could not be read and was not compared: {line}" for line in _unread(verdict)]
    if not verdict.code and not verdict.partial:
        return "\n".join(f"note: envdoctor gate: {line}" for line in unread)
    lines = [f"{'error' if verdict.code else 'warning'}: envdoctor gate: {_head(verdict, job)}"]
    if table := list(_table(verdict)):
        lines += ["", *table]
    kinds = [verdict.agreement.differs, *map(bool, (verdict.refused, verdict.ended, verdict.missing))]
    # The first line names the ranks where there is nothing else to say.
    whole = not verdict.refused and sum([*kinds, bool(verdict.unexamined)]) < 2
    if others := [*([] if whole else _others(verdict, job.timeout)), *(f"  {line}" for line in unread)]:
        lines += ["", *others]
    if helped := [f"help: {line}" for line in _help(verdict, profile, job)]:
        lines += ["", *helped]
    return "\n".join(lines)


def named(ranks: Iterable[int], came: Mapping[int, Attendance]) -> str:
    """Return "ranks 0-3, 6 (n1), 8 (n2)"; a rank that did not come is on the host of both of its neighbours."""
    told = sorted(set(ranks))
    hosts: dict[str, list[int]] = {}
    for rank in told:
        hosts.setdefault(_host(rank, came), []).append(rank)
    parts = [f"{_spans(found)} ({printable(host)})" if host else _spans(found) for host, found in hosts.items()]
    return ("rank " if len(told) == 1 else "ranks ") + ", ".join(parts)


def _host(rank: int, came: Mapping[int, Attendance]) -> str:
    if rank in came:
        return came[rank].host
    below = max((other for other in came if other < rank), default=None)
    above = min((other for other in came if other > rank), default=None)
    if below is None or above is None or came[below].host != came[above].host:
        return ""
    return came[below].host


def _spans(ranks: Sequence[int]) -> str:
    spans: list[list[int]] = []
    for rank in ranks:
        if spans and rank == spans[-1][1] + 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    return ", ".join(f"{first}" if first == last else f"{first}-{last}" for first, last in spans)


def _numbers(who: Iterable[str]) -> list[int]:
    return [int(rank) for rank in who]


def _head(verdict: JobVerdict, job: RankedJob) -> str:
    agreement, size = verdict.agreement, verdict.size
    if agreement.differs and agreement.settled:
        number = len(agreement.odd)
        odd = named(_numbers(agreement.odd), verdict.came)
        return f"the ranks of this job do not run one stack: {number} of {size} {_verb(number, 'differ')}, {odd}"
    if agreement.differs:
        return "the ranks of this job do not run one stack, and no majority says which of them is wrong"
    if verdict.refused:
        number = len(verdict.refused)
        return f"{number} of {size} ranks {'is' if number == 1 else 'are'} refused, so that this job does not start"
    then = "" if verdict.code else "; the job starts all the same"
    if verdict.ended:
        ended = named(verdict.ended, verdict.came)
        return f"{ended} of {size} ended while the others waited for all of them to come{then}"
    if not verdict.missing:
        blind = named(verdict.unexamined, verdict.came)
        return f"{blind} of {size} could not be examined, so that not all ranks could be compared{then}"
    missing = named(verdict.missing, verdict.came)
    where = f" to {printable(job.where)}" if job.where else ""
    limit = f"within {job.timeout:g} s"
    return f"{missing} of {size} did not come{where} {limit}, so that not all ranks could be compared{then}"


def _verb(number: int, verb: str) -> str:
    return f"{verb}s" if number == 1 else verb


def _table(verdict: JobVerdict) -> Iterator[str]:
    rows = [row for row in verdict.agreement.rows if row.others]
    if not rows:
        return
    heads = _HEADS if verdict.agreement.settled else _TIED
    cells = [heads, *(cell for row in rows[:_ROWS] for cell in _cells(row, verdict.came))]
    widths = [max(len(cell[column]) for cell in cells) for column in range(3)]
    for cell in cells:
        yield ("  " + "  ".join(text.ljust(width) for text, width in zip(cell, widths, strict=False)) + "  " + cell[3])
    if len(rows) > _ROWS:
        yield f"  … and {counted(len(rows) - _ROWS, 'fact')} more"


def _cells(row: ComparedFact, came: Mapping[int, Attendance]) -> Iterator[tuple[str, str, str, str]]:
    for at, other in enumerate(row.others):
        first = (printable(row.fact), _shown(row.usual)) if not at else ("", "")
        yield (*first, _shown(other), named(_numbers(other.who), came))


def _shown(stated: Stated) -> str:
    value = printable(stated.value) or "none"
    if value.startswith("sha256:"):
        return value[: len("sha256:") + 12]
    return value if len(value) <= _LONGEST else f"{value[: _LONGEST // 2 - 1]}…{value[-_LONGEST // 2 :]}"


def _others(verdict: JobVerdict, limit: float) -> Iterator[str]:
    by_codes: dict[tuple[str, ...], list[int]] = {}
    for rank in verdict.refused:
        by_codes.setdefault(verdict.came[rank].found, []).append(rank)
    for codes, ranks in by_codes.items():
        why = f": {', '.join(printable(code) for code in dict.fromkeys(codes))}" if codes else ""
        yield f"  refused by the check of their own environment: {named(ranks, verdict.came)}{why}"
    if verdict.ended:
        yield f"  ended while the others waited: {named(verdict.ended, verdict.came)}"
    if verdict.missing:
        when = "had not come by then" if verdict.waited < limit else f"did not come within {limit:g} s"
        yield f"  {when}: {named(verdict.missing, verdict.came)}"
    if verdict.unexamined:
        yield f"  could not be examined: {named(verdict.unexamined, verdict.came)}"


def _unread(verdict: JobVerdict) -> Iterator[str]:
    """Yield facts that ranks could not read, with the ranks and the reason; those of one cause in one line."""
    facts: dict[tuple[tuple[str, ...], str], list[str]] = {}
    for row in verdict.agreement.rows:
        # What a family lacks stands in its own row.
        for gap in row.unread if row.fact == family_of(row.fact) else ():
            facts.setdefault((gap.who, gap.value), []).append(row.fact)
    for (who, why), names in facts.items():
        yield f"{', '.join(map(printable, names))} of {named(_numbers(who), verdict.came)}: {printable(why)}"


def _help(verdict: JobVerdict, profile: str, job: RankedJob) -> Iterator[str]:
    agreement = verdict.agreement
    if agreement.differs and not agreement.settled:
        yield f"find the wrong one on each host: `envdoctor check VENV --profile {shlex.quote(profile)}`"
    elif agreement.differs:
        yield from _for_hosts(verdict, profile)
    if verdict.refused:
        yield "each refused environment has its own report, on the first of its ranks"
    if verdict.missing or verdict.ended or verdict.unexamined:
        yield "look at the launcher's log of those ranks, and whether the gate is in their environment"
    if verdict.missing and job.where:
        yield f"look whether {printable(job.where)} can be reached from there; ENVDOCTOR_RANKS_PORT names a port"
    if verdict.missing or verdict.ended:
        mode = "compare starts" if job.required else "require refuses"
        yield (
            "a rank that starts later needs ENVDOCTOR_RANKS_TIMEOUT=SECONDS; "
            f"ENVDOCTOR_RANKS={mode} such a job, ENVDOCTOR_RANKS=off compares nothing"
        )
    if verdict.agreement.differs and verdict.unmatched:
        yield f"ranks-ignore names what no rank has: {', '.join(map(printable, verdict.unmatched))}"


def _for_hosts(verdict: JobVerdict, profile: str) -> Iterator[str]:
    """Yield what to do on each host that has odd ranks, and on no other."""
    usual = _usual_prefixes(verdict)
    told: dict[str, list[int]] = {}
    for rank in _numbers(verdict.agreement.odd):
        for line in _remedies(rank, verdict, profile, usual):
            told.setdefault(line, []).append(rank)
    for line, ranks in told.items():
        yield f"{named(ranks, verdict.came)}: {line}"


def _usual_prefixes(verdict: JobVerdict) -> dict[str, str]:
    """Return host -> the environment from which the ranks there run that differ in nothing."""
    odd = set(_numbers(verdict.agreement.odd))
    return {one.host: one.prefix for rank, one in verdict.came.items() if rank not in odd and not one.code}


def _remedies(rank: int, verdict: JobVerdict, profile: str, usual: Mapping[str, str]) -> Iterator[str]:
    one = verdict.came[rank]
    rows = [row for row in verdict.agreement.rows if any(str(rank) in other.who for other in row.others)]
    families = {family_of(row.fact) for row in rows}
    beside = usual.get(one.host, one.prefix)
    # A command with signs that cannot be shown as they are would be another one when it is copied.
    if beside != one.prefix:
        start = f"; start it with {shlex.quote(beside + '/bin/python')}" if beside.isprintable() else ""
        yield f"runs from {printable(one.prefix)}{start}"
    elif families & _OF_VENV and one.prefix.isprintable():
        command = f"envdoctor restore --profile {shlex.quote(profile)} --venv {shlex.quote(one.prefix)}"
        yield f"`{command} --dry-run` shows what would change there"
    for row in rows:
        if command := setting_of(row.fact, row.usual.value):
            yield f"`{command}`"
    if "driver" in families:
        yield "give the host the driver of the others, or leave it out of the job"
    if "source" in families:
        yield "bring the training code to the state that the others have"
