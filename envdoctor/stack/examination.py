"""What the checks find in a venv that is about to be swapped in, compared with what they found in the old one."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from envdoctor.doctor.examine import judge, take_fingerprint, take_reading
from envdoctor.errors import EnvdoctorError
from envdoctor.facts.context import Options, Reading
from envdoctor.facts.host import Host
from envdoctor.facts.target import Target, resolve
from envdoctor.model.events import Event, Listener
from envdoctor.model.finding import Finding, Remediation
from envdoctor.model.fingerprint import Fingerprint
from envdoctor.model.frozen import replace
from envdoctor.model.profile import Profile
from envdoctor.model.verdict import STOPS_PYTHON
from envdoctor.probes.loading.comparison import compare_with
from envdoctor.probes.registry import chosen
from envdoctor.probes.venv.digest_memo import content_key
from envdoctor.probes.venv.parsed_record import RecordsAhead
from envdoctor.stack.hashed_ahead import ReadWhileBuilt
from envdoctor.standards.lock import Lock
from envdoctor.swap.verdicts import KeptError, KeptVerdict

# Findings about the venv itself (ED1xx interpreter to ED4xx distributions). A cold cache, a missing GPU, a drifted
# source file are the machine's and the project's: a new venv neither causes nor fixes them.
OF_THE_VENV = ("ED1", "ED2", "ED3", "ED4")
# What the shell adds to a process is not the copy's fault either.
_OF_THE_SHELL = ("LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH", "PYTHONHOME")


def facts_of(venv: Path, host: Host, final: Path | None = None) -> Fingerprint:
    """Return the facts of a venv, without what the shell adds.

    final: the path that a copy will be renamed to; its scripts and .pth files already name that one.
    """
    return take_fingerprint(_target(venv, final), _without_shell(host), Options(ask_nvml=False))


def verdict_on(venv: Path, host: Host) -> KeptVerdict | None:
    """Return what the checks say of a venv by itself, for the record; None where it cannot be read as one."""
    try:
        return verdict_of(facts_of(venv, host))
    except EnvdoctorError:
        return None  # what is put away need not be whole


def verdict_of(facts: Fingerprint) -> KeptVerdict:
    """Return the errors of those facts that are the venv's own, without a profile: another stack is not an error."""
    verdict = judge(facts)
    errors = (item for item in verdict.findings if item.severity == "error" and of_the_venv(item))
    untold = {item.code for item in verdict.skipped if item.matters and item.code.startswith(OF_THE_VENV)}
    return KeptVerdict(
        errors=tuple(KeptError(code=item.code, title=item.title) for item in errors),
        could_not_tell=tuple(sorted(untold)),
    )


def read_deep(
    venv: Path, host: Host, listen: Listener, proven: Mapping[bytes, bytes] | None = None, *, everything: bool = False
) -> tuple[Reading, Fingerprint]:
    """Return the facts of a venv with every file hashed, and the reading; digests of earlier runs count.

    proven: more of them (content key -> sha256). everything: none of them.
    """
    options = replace(deep_options(listen), proven=proven or {}, everything=everything)
    return take_reading(resolve(venv), _without_shell(host), options)


def reading_of_copy(
    venv: Path,
    host: Host,
    listen: Listener,
    final: Path,
    proven: Mapping[bytes, bytes],
    *,
    fresh: bool = False,
    ahead: ReadWhileBuilt | None = None,
) -> Reading:
    """Return a deep reading of a copy for which of earlier digests only `proven` count (content key -> sha256).

    fresh: it was just built from wheels (Options.fresh). ahead: what was read while it was built.
    """
    options = replace(deep_options(listen), fresh=fresh)
    reading = Reading(target=_target(venv, final), host=_without_shell(host), options=options, probes=chosen(options))
    new = {content_key(item.key): item.sha256 for item in ahead.files} if ahead else {}
    if ahead:
        reading.shared[RecordsAhead] = ahead.records
    compare_with(reading, {**proven, **new} if new else proven, new.keys())
    return reading


def _target(venv: Path, final: Path | None) -> Target:
    return replace(resolve(venv), final=final)


def _without_shell(host: Host) -> Host:
    return replace(host, environ={name: value for name, value in host.environ.items() if name not in _OF_THE_SHELL})


def deep_options(listen: Listener) -> Options:
    """Return the options of a reading that hashes every file and tells how far it is."""

    def progress(done: int, total: int) -> None:
        listen(Event(phase="verify", text="every file by its sha256", done=done, total=total))

    return Options(ask_nvml=False, deep=True, progress=progress)


def blocking_findings(
    facts: Fingerprint, profile: Profile | None, lock: Lock | None, final: Path | None = None
) -> tuple[Finding, ...]:
    """Return every error that the checks find in the venv itself, a copy's with the path it will be renamed to."""
    found = tuple(
        finding
        for finding in judge(facts, profile, lock).findings
        if finding.severity == "error" and of_the_venv(finding)
    )
    if final is None:
        return found
    return tuple(_moved(finding, facts.target, str(final)) for finding in found)


def added(after: Sequence[Finding], before: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return the findings that were not there before, compared by code and subject.

    A subject can list several names: a finding that lists some of those that were there before is the same one. It is
    another one if it is about a file that no finding was about before, or that had something else wrong with it.
    """
    known = {(finding.code, name) for finding in before for name in subjects(finding)}
    files = frozenset[str]().union(*(finding.files for finding in before))
    return tuple(
        finding
        for finding in after
        if not all((finding.code, name) in known for name in subjects(finding)) or finding.files - files
    )


def of_the_venv(finding: Finding) -> bool:
    """Tell whether it is about the venv; what keeps its Python from starting is, whatever its code."""
    return finding.code.startswith(OF_THE_VENV) or STOPS_PYTHON in finding.causes


def line(finding: Finding) -> str:
    """Return "CODE title (subject)"."""
    return f"{finding.code} {finding.title} ({finding.subject})"


def subjects(finding: Finding) -> list[str]:
    """Return the names that the finding's subject lists."""
    return finding.subject.split(", ")


def _moved(finding: Finding, old: str, new: str) -> Finding:
    def texts(values: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(value.replace(old, new) for value in values)

    remedy = finding.remediation
    return replace(
        finding,
        title=finding.title.replace(old, new),
        subject=finding.subject.replace(old, new),
        evidence=texts(finding.evidence),
        remediation=Remediation(
            text=remedy.text.replace(old, new),
            commands=texts(remedy.commands),
            safe=remedy.safe,
            by_hand=texts(remedy.by_hand),
        ),
    )
