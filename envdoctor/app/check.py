"""The facts of a venv or of a fingerprint file, and the verdict over them."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from envdoctor.app.places import SaidAt, places
from envdoctor.app.result import Dialog, Result
from envdoctor.doctor.workspace import Workspace
from envdoctor.documents import fingerprint_file
from envdoctor.documents.project_config import load
from envdoctor.errors import UsageError
from envdoctor.exitcodes import ExitCode
from envdoctor.facts.context import Options
from envdoctor.facts.locate import Located
from envdoctor.facts.target import Target
from envdoctor.model.finding import Finding, Remediation, Severity
from envdoctor.model.fingerprint import Fingerprint, Unread
from envdoctor.model.frozen import field, frozen, replace
from envdoctor.model.header import Header
from envdoctor.model.verdict import Verdict
from envdoctor.probes.venv.deep_files import DeepFiles
from envdoctor.probes.venv.training_sources import Sources

if TYPE_CHECKING:  # most checks have no waiver, and a profile's types are many
    from envdoctor.model.profile import Waiver
    from envdoctor.standards.lock import Lock


@frozen
class CheckOptions:
    """What a check looks at, and what it counts."""

    fingerprint: str = ""
    """A fingerprint file, judged instead of a venv."""
    root: str = ""
    """A root folder in which the venv's path is meant."""
    deep: bool = False
    waivers: "tuple[Waiver, ...]" = ()
    lock: str = ""
    """A lock of any tool, compared with the venv in place of a profile's."""
    extras: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    """Extras and dependency groups of that lock, besides the groups that its tool takes by default."""
    required: tuple[str, ...] = ()
    """Requirements that must be met by what is installed."""
    fail_on: Severity = "error"
    exit_zero: bool = False
    baseline: str = ""
    """A file of findings that do not count."""
    write_baseline: str = ""
    """Where to write the findings as a baseline, which is then what they are compared with."""


@frozen
class Checked:
    """What was examined, and what was found."""

    header: Header
    verdict: Verdict
    fail_on: Severity = "error"
    facts: Fingerprint | None = None
    """What the verdict is about, for reports that show the stack itself."""
    places: Mapping[int, SaidAt] = field(default_factory=dict)
    """Index of a finding -> the line of the profile or the lock that is about it."""


def check(workspace: Workspace, wishes: CheckOptions, dialog: Dialog) -> Result:
    """Judge the target venv, or a fingerprint. Raises UsageError."""
    _refuse_both(workspace, wishes)
    if ignored := load(workspace.host.cwd).ignored:
        dialog.note(f"note: {ignored} belongs to another user, so its profile, venv and waivers do not count")
    if wishes.root:
        workspace, facts = _inside(workspace, wishes)
    elif wishes.fingerprint:
        facts = fingerprint_file.read(wishes.fingerprint)
    else:
        facts = facts_of(workspace, Options(deep=wishes.deep), dialog)
    lock = _lock(workspace, wishes, facts, dialog) if wishes.lock else None
    verdict = workspace.verdict(facts, wishes.waivers, wishes.required, lock=lock)
    if wishes.root:
        verdict = _not_for_this_machine(verdict, wishes.root)
    elif wishes.fingerprint:
        verdict = _each(verdict, lambda finding: _led(finding, "where the fingerprint was taken"))
    elif hindered := _hindered(workspace):
        prefix = str(workspace.target.prefix)
        verdict = _each(verdict, lambda finding: _led(finding, hindered) if _changes(finding, prefix) else finding)
    if not wishes.root and not wishes.fingerprint:
        verdict = with_sources(verdict, workspace)
    verdict = _against_baseline(verdict, workspace, wishes, dialog)
    return Result(
        command="check",
        data=Checked(
            header=replace(workspace.header(facts), lock=lock.name if lock else ""),
            verdict=verdict,
            fail_on=wishes.fail_on,
            facts=facts,
            places=places(verdict.findings, workspace.profile, lock.name if lock else "", workspace.host.cwd),
        ),
        exit_code=ExitCode.OK if wishes.exit_zero else verdict.exit_code(wishes.fail_on),
        elsewhere=bool(wishes.root or wishes.fingerprint),
    )


def with_sources(verdict: Verdict, workspace: Workspace) -> Verdict:
    """Return the verdict whose lines for uv look where wheels can come from, in this folder and environment."""

    def installs(finding: Finding) -> bool:
        remedy = finding.remediation
        return any("uv pip " in line for line in (remedy.text, *remedy.commands, *remedy.by_hand))

    if not any(map(installs, verdict.findings)):
        return verdict
    from envdoctor.wheels import printed  # noqa: PLC0415 - most checks print no such line

    host = workspace.host
    known = printed.sources(host.environ, host.home, host.cwd, workspace.target.prefix)

    def told(finding: Finding) -> Finding:
        remedy = finding.remediation
        commands, by_hand = (
            tuple(printed.sourced(command, known) for command in lines) for lines in (remedy.commands, remedy.by_hand)
        )
        text = printed.sourced_text(remedy.text, known)
        more = printed.note((text, *commands, *by_hand), known)
        text = f"{text}; {more}" if more else text
        return replace(finding, remediation=replace(remedy, text=text, commands=commands, by_hand=by_hand))

    return _each(verdict, told)


def _against_baseline(verdict: Verdict, workspace: Workspace, wishes: CheckOptions, dialog: Dialog) -> Verdict:
    named = wishes.write_baseline or wishes.baseline
    if not named:
        return verdict
    from envdoctor.app import baseline  # noqa: PLC0415 - most checks have none

    path = Path(workspace.host.cwd, named)
    if wishes.write_baseline:
        baseline.write(path, verdict)
    known = baseline.read(path)
    if untold := baseline.untold(known):
        dialog.note(
            f"note: {named} does not say how far {untold} of its findings went, so whether they got worse "
            "could not be determined; write it again: `envdoctor check --write-baseline FILE`"
        )
    return baseline.without(verdict, known, named)


def fingerprint(workspace: Workspace, dialog: Dialog, *, deep: bool = False) -> Result:
    """Return every fact of the target venv, with the stack's digest."""
    return Result(command="fingerprint", data=facts_of(workspace, Options(contents=True, deep=deep), dialog))


def facts_of(workspace: Workspace, options: Options, dialog: Dialog) -> Fingerprint:
    """Return the facts of the target venv; progress is shown while its files are hashed."""
    if not options.deep:
        return workspace.facts(options)
    with dialog.hashing() as show:
        facts = workspace.facts(replace(options, progress=show))
    for note in facts[DeepFiles].notes if facts.get(DeepFiles) else ():
        dialog.note(f"note: {note}")
    return facts


def _inside(workspace: Workspace, wishes: CheckOptions) -> tuple[Workspace, Fingerprint]:
    """Return the facts of an environment inside a root folder, and the workspace that says so in its heading."""
    from envdoctor.doctor.inside_root import facts_inside  # noqa: PLC0415 - few checks look into a root folder

    folder = Path(workspace.host.cwd, wishes.root)
    facts = facts_inside(folder, workspace.typed, Options(deep=wishes.deep, ask_nvml=False))
    if workspace.profile is not None and workspace.profile.profile.sources:
        gap = Unread(section=Sources.__name__, reason=f"the training code is not inside {folder}")
        kept = tuple(section for section in facts.sections if not isinstance(section, Sources))
        facts = replace(facts, sections=kept, unread=(*facts.unread, gap))
    target = Target(prefix=Path(facts.target), interpreter=Path(facts.target, "bin/python"))
    return workspace.seen_as(Located(target=target, why=f"inside the root folder {folder}")), facts


def _not_for_this_machine(verdict: Verdict, root: str) -> Verdict:
    """Return the verdict with its commands in its text: pasted here, their paths would mean this machine's files."""

    def told(finding: Finding) -> Finding:
        remedy = finding.remediation
        if not remedy.commands:
            return finding
        commands = ", then ".join(f"`{command}`" for command in remedy.commands)
        text = f"{remedy.text}. To be run inside {root}, not on this machine: {commands}"
        return replace(finding, remediation=Remediation(text=text))

    return _each(verdict, told)


def _each(verdict: Verdict, change: Callable[[Finding], Finding]) -> Verdict:
    return replace(
        verdict,
        findings=tuple(map(change, verdict.findings)),
        waived=tuple(replace(item, finding=change(item.finding)) for item in verdict.waived),
    )


def _lock(workspace: Workspace, wishes: CheckOptions, facts: Fingerprint, dialog: Dialog) -> "Lock":
    from envdoctor.foreign_locks import comparison, formats  # noqa: PLC0415 - few checks name a lock

    file = formats.lock_file(wishes.lock, workspace.host.cwd, wishes.extras, wishes.groups)
    with dialog.waiting(f"reading {file.path.name}"):
        lock, notes = comparison.lock_for(file, workspace.host, facts)
    for note in notes:
        dialog.note(f"note: {note}")
    return lock


def _led(finding: Finding, where: str) -> Finding:
    """Return the finding whose remedy begins with where its commands are to be run; one without any as it is."""
    remedy = finding.remediation
    if not remedy.commands:
        return finding
    return replace(finding, remediation=replace(remedy, text=f"To be run {where}: {remedy.text}"))


def _changes(finding: Finding, prefix: str) -> bool:
    commands = finding.remediation.commands
    return any(prefix in command and not command.startswith(("export ", "unset ")) for command in commands)


def _hindered(workspace: Workspace) -> str:
    """Return where what changes the environment has to be run, if this user cannot change it here; else empty."""
    prefix = workspace.target.prefix
    try:
        if os.statvfs(prefix).f_flag & os.ST_RDONLY:
            return f"where {prefix} is writable (here it is mounted read-only)"
        owner = prefix.stat().st_uid
    except OSError:
        return ""
    return "" if os.access(prefix, os.W_OK) else f"as the owner of {prefix}, uid {owner}"


def _refuse_both(workspace: Workspace, wishes: CheckOptions) -> None:
    if wishes.lock and workspace.profile is not None:
        raise UsageError(f"both a profile ({workspace.profile.name}) and --lock were given", "give only one of them")
    if (wishes.extras or wishes.groups) and not wishes.lock:
        raise UsageError("--extra and --group choose parts of a lock", "name it: `--lock FILE`")
    if wishes.baseline and wishes.write_baseline:
        raise UsageError("both --baseline and --write-baseline were given", "give only one of them")
    if wishes.fingerprint and wishes.root:
        raise UsageError("both --root and --fingerprint were given", "give only one of them")
    if wishes.fingerprint and workspace.typed:
        raise UsageError("both a venv and --fingerprint were given", "give only one of them")
    if wishes.fingerprint and wishes.deep:
        raise UsageError(
            "--deep hashes a venv's files, a fingerprint has none",
            "write it with its hashes: `envdoctor fingerprint --deep VENV -o FILE`",
        )
