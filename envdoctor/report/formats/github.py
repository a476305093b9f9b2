"""Workflow commands of GitHub Actions, one a cause: `::error file=…,line=…,title=…::message`.

Escaping as actions/toolkit does it (packages/core/src/command.ts): of a message %, CR and LF; of a property : and ,
too. The job's summary is the Markdown of the same result.
"""

from collections.abc import Iterator, Mapping

from envdoctor.report.formats.outline import Outline, OutlineEntry

_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}
_MESSAGE = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY = {**_MESSAGE, ":": "%3A", ",": "%2C"}


def render(outline: Outline) -> str:
    """Return the commands, one a line."""
    return "".join(f"{line}\n" for line in _lines(outline))


def _lines(outline: Outline) -> Iterator[str]:
    for entry, others in outline.causes:
        yield _annotation(entry, others)
    for gap in outline.gaps:
        yield _command("warning", {"title": f"{gap.code} {gap.name}: could not tell"}, gap.reason)
    state = outline.state
    kind = state if state in ("error", "warning") else "warning" if state == "unknown" else "notice"
    yield _command(kind, {"title": f"envdoctor {outline.command}"}, f"{outline.subject}: {outline.conclusion}")


def _annotation(entry: OutlineEntry, others: tuple[OutlineEntry, ...]) -> str:
    properties = {"title": f"{entry.code} {entry.name}"}
    if entry.place:
        properties = {"file": entry.place.file, "line": str(entry.place.line), **properties}
    lines = [entry.title, *entry.evidence]
    lines += [f"explains {other.code} {other.name}: {other.subject}" for other in others]
    lines += [f"fix: {entry.remedy}"] if entry.remedy else []
    return _command(_COMMANDS[entry.level], properties, "\n".join([*lines, *entry.commands]))


def _command(kind: str, properties: Mapping[str, str], message: str) -> str:
    named = ",".join(f"{name}={_escaped(value, _PROPERTY)}" for name, value in properties.items())
    return f"::{kind} {named}::{_escaped(message, _MESSAGE)}"


def _escaped(text: str, signs: Mapping[str, str]) -> str:
    return "".join(signs.get(sign, sign) for sign in text)
