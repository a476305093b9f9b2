"""`envdoctor cache gc`: what can go and what stays, and where that is which went."""

from collections.abc import Sequence
from typing import Any

from envdoctor.app.cache_gc import Cleaned
from envdoctor.cache.gc import EntryRemoval
from envdoctor.cache.quarantine import Quarantine
from envdoctor.model.codec import encode
from envdoctor.report.cache_text import megabytes
from envdoctor.report.style import Style, printable

_MOST_SHOWN = 20


def text(data: Cleaned, style: Style) -> str:
    """Return the plan, or what was done."""
    shown = len(data.plan.removals) if style.verbosity > 0 else _MOST_SHOWN
    return "\n".join(_planned(data, shown) if data.status == "planned" else _done(data)) + "\n"


def document(data: Cleaned) -> dict[str, Any]:
    """Return the same as plain values."""
    return {
        "status": data.status,
        "bytes": data.plan.bytes,
        "removals": encode(data.plan.removals),
        "kept": [{"reason": reason, "entries": number} for reason, number in data.plan.kept.items()],
        "users": encode(data.users),
        "not_seen": list(data.not_seen),
        "purged": [_quarantine(found) for found in data.old],
        "taken": [_quarantine(found) for found in data.taken],
    }


def _planned(data: Cleaned, shown: int) -> list[str]:
    lines = [*_removals(data.plan.removals, data.plan.bytes, shown), *_staying(data)]
    lines += [printable(line) for line in data.not_seen]
    lines += [
        f"in quarantine since {found.stamp}: {len(found.files)} files, {megabytes(found.bytes)}" for found in data.old
    ]
    return lines


def _staying(data: Cleaned) -> list[str]:
    lines = [f"{_entries(number)} stay{'s' * (number == 1)}: {reason}" for reason, number in data.plan.kept.items()]
    return lines + [printable(f"{user.root} is used by process {user.pid}: {user.command}") for user in data.users]


def _removals(removals: Sequence[EntryRemoval], size: int, shown: int) -> list[str]:
    if not removals:
        return ["no entry can go"]
    lines = [f"{_entries(len(removals))} can go, {megabytes(size)}"]
    lines += [
        printable(f"  {removal.root}/{removal.entry} ({removal.kind}, {megabytes(removal.bytes)}): {removal.reason}")
        for removal in removals[:shown]
    ]
    if len(removals) > shown:
        lines.append(f"  and {len(removals) - shown} more; -v lists all")
    return lines


def _done(data: Cleaned) -> list[str]:
    lines = [f"{megabytes(sum(found.bytes for found in data.old))} of earlier clean-ups deleted"] if data.old else []
    lines += [f"{len(found.files)} files, {megabytes(found.bytes)}, moved to {found.folder}" for found in data.taken]
    if data.taken:
        lines += ["", "`envdoctor cache undo` puts them back; `envdoctor cache gc --purge` deletes them for good"]
    if not (lines or data.plan.removals):
        return _staying(data)  # a process has come to use all that could go
    return lines or ["nothing was removed: what could go is gone already"]


def _entries(number: int) -> str:
    return "1 entry" if number == 1 else f"{number} entries"


def _quarantine(found: Quarantine) -> dict[str, Any]:
    return {
        "stamp": found.stamp,
        "root": found.root,
        "folder": str(found.folder),
        "files": len(found.files),
        "bytes": found.bytes,
    }
