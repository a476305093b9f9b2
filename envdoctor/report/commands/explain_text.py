"""`envdoctor explain TEXT`, `envdoctor explain --log FILE`: the known error texts in it."""

from typing import Any

from envdoctor.model.symptom import FoundSymptom, Recognized
from envdoctor.report.style import Style
from envdoctor.report.symptom_pages import as_terminal_text


def text(data: Recognized, style: Style) -> str:
    """Return a block for each text that was found."""
    return as_terminal_text(data, style)


def document(data: Recognized) -> dict[str, Any]:
    """Return what was found as plain values."""
    return {"log": data.source or None, "left_out": data.left_out, "found": [_found(one) for one in data.found]}


def _found(one: FoundSymptom) -> dict[str, Any]:
    return {
        "text": one.text,
        "seen": one.seen,
        "line": one.line,
        "times": one.times,
        "meaning": one.meaning,
        "causes": [{"code": code or None, "name": name or None, "what": what} for code, name, what in one.causes],
        "commands": list(one.commands),
    }
