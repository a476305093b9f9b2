"""`envdoctor try`: what the change does, and what became of the copy."""

import shlex
from pathlib import Path
from typing import Any

from envdoctor.app.trying import TryResult
from envdoctor.model.codec import encode
from envdoctor.report import impact_text
from envdoctor.report.plan_text import kept_lines
from envdoctor.report.style import Style, printable


def text(data: TryResult, style: Style) -> str:
    """Return the comparison, the test, and what was done."""
    if data.status == "nothing changed":
        return f"nothing changed in the copy of {data.venv}, which was thrown away\n"
    if data.status == "kept":
        lines = [f"{data.venv} is the copy with the change"]
        lines += kept_lines(Path(data.venv), Path(data.kept), data.users, style)
        return "\n".join(lines) + "\n"
    lines = [impact_text.render(data.tried.impact, style).rstrip("\n")]
    lines += [f"it was still running, and was ended: {printable(line)}" for line in data.tried.ended]
    lines += _test(data)
    lines += [f"it is in use by {user}" for user in data.users]
    if data.status == "thrown away":
        lines.append(f"the copy was thrown away; {data.venv} is as it was")
    return "\n".join(lines) + "\n"


def _test(data: TryResult) -> list[str]:
    test = data.tried.test
    if test is None:
        return []
    if not test.code:
        return [f"test: passed in {test.seconds:.1f} s"]
    output = [f"  {printable(line)}" for line in data.tried.test_output.splitlines()]
    return [f"test: failed, {test.ending}", *output]


def document(data: TryResult) -> dict[str, Any]:
    """Return the same as plain values."""
    test = data.tried.test
    return {
        "status": data.status,
        "venv": data.venv,
        "impact": {**encode(data.tried.impact), "harmful": data.tried.impact.harmful},
        "test": None
        if test is None
        else {"exit_code": test.code, "seconds": round(test.seconds, 3), "output": data.tried.test_output},
        "ended": list(data.tried.ended),
        "kept": data.kept or None,
        "commands": [f"envdoctor rollback --venv {shlex.quote(data.venv)}"] if data.status == "kept" else [],
    }
