"""`envdoctor bisect --undo`: what is undone, and the way back."""

from pathlib import Path
from typing import Any

from envdoctor.app.bisect import BisectUndo
from envdoctor.report.commands.bisect import plain
from envdoctor.report.plan_text import kept_lines
from envdoctor.report.style import Style, printable


def text(data: BisectUndo, style: Style) -> str:
    """Return the plan, or what was done."""
    if data.status == "planned":
        lines = [f"to undo in {data.venv}: the copy that was found good without these is to be swapped in"]
        lines += [f"  {printable(str(change))}" for change in data.undone]
        lines.append(f"the venv as it is now is kept at {data.keep}")
        lines += [f"it is in use by {user}" for user in data.users]
    else:
        lines = [f"{data.venv} is the copy without the causes"]
        lines += kept_lines(Path(data.venv), Path(data.kept), data.users, style)
    return "\n".join(lines) + "\n"


def document(data: BisectUndo) -> dict[str, Any]:
    """Return the same as plain values."""
    shown = {"venv": data.venv, "status": data.status, "undone": [plain(change) for change in data.undone]}
    return shown | ({"kept": data.kept} if data.kept else {})
