"""`envdoctor bisect --log`: every copy of the last bisection, and what it was found to be."""

from typing import Any

from envdoctor.app.bisect import BisectLog
from envdoctor.model.codec import encode
from envdoctor.report.commands.bisect import verdict_lines
from envdoctor.report.style import Style
from envdoctor.standards.redaction import redacted_words
from envdoctor.trial.launch import as_typed


def text(data: BisectLog, style: Style) -> str:
    """Return the question, then one line a copy."""
    del style
    asked = data.asked
    command = as_typed(redacted_words(asked.command))
    lines = [
        f"envdoctor bisect  good {asked.good}  bad {asked.bad}   `{command}`   begun {asked.started}",
        *verdict_lines(data.verdicts),
        f"output of every run: {data.output}",
    ]
    return "\n".join(lines) + "\n"


def document(data: BisectLog) -> dict[str, Any]:
    """Return the same as plain values."""
    asked = data.asked
    return {
        "venv": data.venv,
        "good": asked.good,
        "bad": asked.bad,
        "command": list(redacted_words(asked.command)),
        "started": asked.started,
        "changes": list(asked.changes),
        "copies": [encode(verdict) for verdict in data.verdicts],
        "log": data.output,
    }
