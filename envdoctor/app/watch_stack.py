"""What the stack of a venv was: an entry of its journal, the timer that makes one, and the entry of a moment."""

import re
import shlex
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from envdoctor.app.result import Result
from envdoctor.compare.comparable import of_fingerprint
from envdoctor.compare.difference import ComparableStack, Difference, compare
from envdoctor.doctor.workspace import Workspace
from envdoctor.documents import fingerprint_file
from envdoctor.documents.stack_journal import StackEntry, StackJournal, entry_of
from envdoctor.errors import EnvdoctorError, UsageError
from envdoctor.facts.context import Options
from envdoctor.model.fingerprint import Fingerprint
from envdoctor.model.frozen import frozen, replace
from envdoctor.stack.named import NamedStack

_SPAN = re.compile(r"(\d{1,6})\s*(m|h|d|w)")
_SECONDS = {"m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_EVERY = {"hourly": "0 * * * *", "daily": "0 6 * * *", "weekly": "0 6 * * 1"}
REACHED = 0.95
"""The share of its profile's tokens a second from which on a run has reached what is expected."""


@frozen
class StackSeen:
    """One entry, and the one before it."""

    venv: str
    journal: str
    entry: StackEntry
    before: str
    """When the entry before was made; empty where this is the first."""


@frozen
class WatchUnits:
    """What makes an entry at every hour, for systemd or for cron: text to be saved or pasted."""

    venv: str
    name: str
    command: tuple[str, ...]
    every: str
    cron: str
    """The line of a crontab, where that was asked for; else empty."""


def once(workspace: Workspace, kind: Literal["seen", "good"] = "seen", rate: float = 0.0) -> Result:
    """Append what the stack is now, and what changed since the entry before. Raises UsageError."""
    return noted(workspace, workspace.facts(Options(contents=True)), kind, rate)


def noted(workspace: Workspace, facts: Fingerprint, kind: Literal["seen", "good"], rate: float = 0.0) -> Result:
    """Append an entry of a fingerprint that was taken with `Options(contents=True)`. Raises UsageError."""
    journal = StackJournal.of(workspace.target.prefix, workspace.host)
    last = next(reversed(journal.entries()), None)
    profile = workspace.profile.name if workspace.profile else ""
    entry = entry_of(facts, kind, _changed(journal, last, facts), profile=profile, rate=rate)
    journal.add(entry, facts)
    seen = StackSeen(venv=journal.prefix, journal=str(journal.path), entry=entry, before=last.at if last else "")
    return Result(command="watch-stack", data=seen)


def units(workspace: Workspace, every: str, *, cron: bool) -> Result:
    """Return the units of systemd, or the line of a crontab, that make an entry so often. Raises UsageError."""
    if every not in _EVERY:
        raise UsageError(f"`--every {every}` is not known", f"it is one of {', '.join(_EVERY)}")
    prefix = str(workspace.target.prefix)
    command = [str(Path(sys.executable).parent / "envdoctor"), "watch-stack", "--once", prefix]
    if workspace.profile:
        command += ["--profile", str(workspace.profile.path)]
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", StackJournal.of(Path(prefix), workspace.host).folder.name)
    line = f"{_EVERY[every]} {shlex.join(command)}".replace("%", r"\%") if cron else ""
    found = WatchUnits(venv=prefix, name=f"envdoctor-{plain}", command=tuple(command), every=every, cron=line)
    return Result(command="watch-stack", data=found)


def then(workspace: Workspace, since: str, *, last_good: bool) -> tuple[NamedStack, StackEntry]:
    """Return the stack of the venv at a moment, from its journal, and its entry. Raises UsageError without one."""
    journal = StackJournal.of(workspace.target.prefix, workspace.host)
    entries = journal.entries()
    begin = f"envdoctor watch-stack --once {shlex.quote(journal.prefix)}"
    if last_good:
        found = next((one for one in reversed(entries) if one.kind == "good"), None)
        if found is None:
            raise UsageError(
                f"no good run on {journal.prefix} is known",
                "`envdoctor run --watch -p PROFILE -- CMD` notes one that reaches expected.tokens_per_second of its "
                f"profile; `{begin} --good` notes the stack as it is now",
            )
        label = f"{journal.prefix} at its last good run, {found.at}"
        if found.tokens_per_second:
            label += f" ({found.tokens_per_second:,.0f} tok/s, profile {found.profile or 'not named'})"
        return _named(journal, found, label)
    if not entries:
        raise UsageError(
            f"{journal.prefix} has no journal", f"begin one: `{begin}`; `envdoctor watch-stack` prints a timer"
        )
    moment = _moment(since)
    found = next((one for one in reversed(entries) if one.at <= moment), None)
    if found is None:
        found = entries[0]
        return _named(journal, found, f"{journal.prefix} as of {found.at}, where its journal begins")
    return _named(journal, found, f"{journal.prefix} as of {found.at}")


def _named(journal: StackJournal, entry: StackEntry, label: str) -> tuple[NamedStack, StackEntry]:
    return NamedStack(kind="fingerprint", label=label, path=str(journal.folder / entry.fingerprint)), entry


def without_variables(stack: ComparableStack) -> ComparableStack:
    """Return a stack that says nothing of variables: a timer has others than a shell, and a launch others again."""
    return replace(stack, areas={name: area for name, area in stack.areas.items() if name != "environment"})


def _moment(since: str) -> str:
    """Return "2d" before now, or a day or a time as it is written, as the journal writes times. Raises UsageError."""
    try:
        if found := _SPAN.fullmatch(since.strip()):
            moment = datetime.now(UTC) - timedelta(seconds=int(found[1]) * _SECONDS[found[2]])
        else:
            moment = datetime.fromisoformat(since.strip())
            moment = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        hint = "write a span (30m, 12h, 2d, 3w) or a time (2026-11-28, 2026-11-28T09:00)"
        raise UsageError(f"`--since {since}` is no time", hint) from error
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _changed(journal: StackJournal, last: StackEntry | None, facts: Fingerprint) -> tuple[str, ...]:
    if last is None:
        return ()
    try:
        before = fingerprint_file.read(str(journal.folder / last.fingerprint))
    except EnvdoctorError as error:
        return (f"the fingerprint of {last.at} is not read: {error.message}",)
    a, b = of_fingerprint(before, "before", "fingerprint"), of_fingerprint(facts, "now", "venv")
    found = compare(without_variables(a), without_variables(b))
    return tuple(_line(one) for one in found.differences)


def _line(one: Difference) -> str:
    return f"{one.area}: {one.subject}: {one.a or 'nothing'} -> {one.b or 'nothing'}"
