"""A restore's plan and outcome, for people."""

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from envdoctor.model.plan import Change, Plan, Room, SourceChange, VenvUser
from envdoctor.model.wording import counted, size
from envdoctor.report.style import Style, printable
from envdoctor.wheels.urls import shown

if TYPE_CHECKING:  # prune and rollback use this too, and restore nothing
    from envdoctor.stack.restore_copy import Restored
    from envdoctor.stack.verify import Verified

_LISTED = 12
_NAMED = 3
# Fewer bytes than this are not worth a line, unless there is too little room.
_SMALL = 10_000_000
MEANWHILE = "what such a process has open stays the old venv's; what it imports or opens by path later is the new one's"


def plan_text(plan: Plan) -> str:
    """Return the plan as lines of text, ending with a newline."""
    lines = [
        f"envdoctor restore  {plan.target}   profile {plan.profile}",
        "",
        f"  interpreter  CPython {plan.interpreter.version}  {plan.interpreter.path} ({plan.interpreter.found_via})",
        f"  lock         {plan.lock}",
        f"  packages     {_sources(plan)}",
        f"  venv         {_venv(plan)}",
        *(f"  {'' if index else 'disk':13}{_room(room)}" for index, room in enumerate(_telling(plan.rooms))),
    ]
    lines += _changes(plan.changes) if plan.exists else []
    lines += _users(plan.users)
    lines += source_lines(plan.sources)
    for warning in plan.warnings:
        lines += ["", printable(f"warning: {warning}")]
    for missing in plan.unavailable:
        lines += ["", f"error: {missing.name} {missing.version} was not found: {missing.reason}"]
        lines += [f"  hint: {missing.hint}"]
    if plan.lacking:
        lines += ["", f"error: too little room on the file system of {plan.lacking.where}"]
    steps = [f"{number}. {step}" for number, step in enumerate(plan.steps, 1)]
    lines += ["", *(f"  {line}" for line in (steps if plan.possible else [_not_yet(plan)]))]
    return "\n".join(lines) + "\n"


def _not_yet(plan: Plan) -> str:
    """Return what has to come first, in place of the steps that cannot be taken."""
    if not plan.unavailable:
        return "nothing is restored until there is room"
    first = "that wheel is" if len(plan.unavailable) == 1 else f"these {len(plan.unavailable)} wheels are"
    return f"nothing is restored until {first} there; `--rehearse` builds and verifies the others"


def outcome_text(done: "Restored", style: Style) -> str:
    """Return what was done, and the way back."""
    verified = done.verified
    counts = f"{counted(verified.distributions, 'package')}, {counted(verified.files, 'file')} ({size(verified.bytes)})"
    lines = [f"restored {done.target}: {counts} verified by sha256", *remembered_lines(verified)]
    if done.kept is not None:
        lines += kept_lines(done.target, done.kept, done.users, style)
    return "\n".join(lines) + "\n"


def remembered_lines(verified: "Verified") -> list[str]:
    """Return how many of the files were read by an earlier restore, and not by this one, where that saved time."""
    if verified.remembered_bytes < _SMALL:
        return []
    many = f"{counted(verified.remembered, 'file')} of them ({size(verified.remembered_bytes)})"
    return [f"{many} were read by an earlier restore and have not changed since; `--verify all` reads every file"]


def kept_lines(target: Path, kept: Path, users: Sequence[VenvUser], style: Style) -> list[str]:
    """Return where the old venv is, who still runs from it, and the way back."""
    lines = [f"the old venv is kept at {kept}" + ("" if users else "; no process that this user can see uses it")]
    lines += [f"in use by {user}" for user in users[:_NAMED]]
    lines += [f"and {len(users) - _NAMED} more"] if len(users) > _NAMED else []
    lines += [MEANWHILE] if users else []
    back = printable(f"envdoctor rollback --venv {shlex.quote(str(target))}")
    return [*lines, f"to go back: {style.paint('command', back)}"]


def source_lines(changes: Sequence[SourceChange]) -> list[str]:
    """Return which source files come back, and from where."""
    return [
        f"  {'sources' if not index else '':13}{change.path} from commit {change.commit[:12]}"
        + ("" if change.before else ", which is missing now")
        for index, change in enumerate(changes)
    ]


def _users(users: Sequence[VenvUser]) -> Iterator[str]:
    for index, user in enumerate(users[:_NAMED]):
        yield f"  {'in use by' if not index else '':13}{user}"
    if len(users) > _NAMED:
        yield f"{'':15}and {len(users) - _NAMED} more (--format json lists all)"
    if users:
        yield f"{'':15}{MEANWHILE}"


def _sources(plan: Plan) -> str:
    total = len(plan.packages) + len(plan.unavailable)
    parts = [f"{plan.cached} in uv's cache"]
    places = Counter((p.source.kind, p.source.location) for p in plan.packages if not p.source.cached)
    for (kind, location), count in sorted(places.items()):
        where = {"backend": f"the {location} index", "configured": "the configured sources"}.get(kind, shown(location))
        parts.append(f"{count} from {where}")
    if plan.unavailable:
        parts.append(f"{len(plan.unavailable)} not found")
    return f"{total}: {', '.join(parts)}; {_download(plan)}"


def _download(plan: Plan) -> str:
    if not plan.download_bytes and not plan.unsized:
        return "nothing to download"
    unknown = f" and {plan.unsized} of unknown size" if plan.unsized else ""
    return f"download {size(plan.download_bytes)}{unknown}"


def _telling(rooms: Sequence[Room]) -> list[Room]:
    return [room for room in rooms if room.bytes >= _SMALL or not room.enough]


def _room(room: Room) -> str:
    holds = {"venv": "the venv", "cache": "uv's cache", "venv and cache": "the venv and uv's cache"}[room.holds]
    copied = ", copied from uv's cache" if room.copies else ""
    more = f" and {counted(room.unsized, 'package')} of unknown size" if room.unsized else ""
    return f"{size(room.bytes)}{more} for {holds}{copied}, on {room.where} ({size(room.free)} free)"


def _venv(plan: Plan) -> str:
    if not plan.exists:
        return "does not exist yet"
    added = sum(not change.before for change in plan.changes)
    removed = sum(not change.after for change in plan.changes)
    changed = len(plan.changes) - added - removed
    python = f"CPython {plan.old_interpreter}" if plan.old_interpreter else "a folder without a Python"
    return f"{python}; {removed} removed, {added} added, {changed} changed, {plan.unchanged} as locked"


def _changes(changes: Sequence[Change]) -> Iterator[str]:
    # What goes and what changes is what a person must see; what comes is in the lock anyway.
    telling = [change for change in changes if change.before]
    for change in telling[:_LISTED]:
        yield f"    - {change.name} {change.before}" + (f" -> {change.after}" if change.after else "")
    if len(telling) > _LISTED:
        yield f"    … and {len(telling) - _LISTED} more (--format json lists all)"
