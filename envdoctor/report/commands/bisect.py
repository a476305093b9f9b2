"""`envdoctor bisect`: what differs, what each copy was, and which change is at fault."""

from collections.abc import Sequence
from typing import Any

from envdoctor.app.bisect import BisectResult
from envdoctor.model.codec import encode
from envdoctor.model.wording import counted
from envdoctor.report.style import Style, printable
from envdoctor.standards.redaction import redacted_words
from envdoctor.trial.changes import StackChange
from envdoctor.trial.journal import CopyVerdict
from envdoctor.trial.launch import as_typed

_SHOWN = 3


def text(data: BisectResult, style: Style) -> str:
    """Return the answer: causes first, then how they were found, then what undoes them."""
    found = data.found
    lines = [f"envdoctor bisect  good {found.good}  bad {found.bad}   `{as_typed(redacted_words(found.command))}`", ""]
    for cause in found.causes:
        if len(cause) == 1:
            lines.append(f"cause: {printable(str(cause[0]))}")
        else:
            lines.append(f"cause: {len(cause)} changes that fail only together:")
            lines += [f"    {printable(str(change))}" for change in cause]
    named = {change.key for cause in found.causes for change in cause}
    along = [change for change in found.undone if change.key not in named]
    lines += [f"along: {printable(str(change))}; it needs what is undone" for change in along]
    lines += ["", f"{counted(len(found.changes), 'change')} between the ends"]
    lines += verdict_lines(found.verdicts)
    lines.append(
        "a copy of the bad end without the causes is good"
        if found.verified
        else "whether it is good without the causes could not be determined: that copy cannot be judged"
    )
    lines += [f"note: {printable(note)}" for note in found.notes]
    lines.append(f"output of every run: {found.log}")
    lines += _undo_lines(data, style)
    return "\n".join(lines) + "\n"


def verdict_lines(verdicts: Sequence[CopyVerdict]) -> list[str]:
    """Return one line a copy."""
    return [
        f"  {number:>3}  {verdict.outcome:4}  {printable(f'{_with(verdict)}: {verdict.why}')}   {verdict.seconds:.1f} s"
        for number, verdict in enumerate(verdicts, 1)
    ]


def _with(verdict: CopyVerdict) -> str:
    if not verdict.changes:
        return "none of the changes"
    if len(verdict.changes) > _SHOWN:
        return f"{len(verdict.changes)} changes"
    return ", ".join(key.partition(" ")[2] for key in verdict.changes)


def _undo_lines(data: BisectResult, style: Style) -> list[str]:
    lines = []
    if data.undo.command:
        lines += [
            "help: to undo it, with the copy that was found good:",
            f"      {style.paint('command', data.undo.command)}",
        ]
    if data.undo.by_hand:
        lines += ["help: or by hand:" if lines else "help: to undo it:"]
        lines += [f"      {style.paint('command', line)}" for line in data.undo.by_hand]
    return lines


def document(data: BisectResult) -> dict[str, Any]:
    """Return the same as plain values."""
    found = data.found
    return {
        "venv": data.venv,
        "good": found.good,
        "bad": found.bad,
        "command": list(redacted_words(found.command)),
        "causes": [[plain(change) for change in cause] for cause in found.causes],
        "undone": [plain(change) for change in found.undone],
        "verified": found.verified,
        "changes": [plain(change) for change in found.changes],
        "copies": [encode(verdict) for verdict in found.verdicts],
        "resumed": found.resumed,
        "notes": list(found.notes),
        "log": found.log,
        "commands": [data.undo.command] if data.undo.command else [],
        "by_hand": list(data.undo.by_hand),
    }


def plain(change: StackChange) -> dict[str, Any]:
    """Return a change as plain values."""
    return {
        "key": change.key,
        "kind": change.kind,
        "name": change.name,
        "before": change.before,
        "after": change.after,
        "distributions": list(change.members),
        "note": change.note,
    }
