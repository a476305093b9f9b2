"""`envdoctor profiles`: the known-good stacks that can be named."""

from collections.abc import Sequence
from typing import Any

from envdoctor.documents.profile_store import ProfileRef
from envdoctor.report.style import Style, printable


def text(data: Sequence[ProfileRef], style: Style) -> str:
    """Return two lines for each profile."""
    del style
    column = max((len(item.name) for item in data), default=0)
    lines = [
        f"{item.name.ljust(column)}  {printable(item.profile.summary)}\n{' ' * column}  {item.path}\n" for item in data
    ]
    return "".join(lines) or "no profiles here: put one under profiles/NAME.toml\n"


def document(data: Sequence[ProfileRef]) -> dict[str, Any]:
    """Return the profiles as plain values."""
    return {"profiles": [{"name": item.name, "summary": item.profile.summary, "path": str(item.path)} for item in data]}
