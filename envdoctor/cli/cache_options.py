"""What the `cache` commands share: an option, and the question before a change."""

from typing import Annotated

import typer

from envdoctor.errors import UsageError

LiveOption = Annotated[
    bool, typer.Option("--live", help="Ask the venv's own torch for its key: runs the venv's interpreter.")
]


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something is changed. Raises UsageError where nobody can answer, typer.Abort for a no."""
    import sys

    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("confirmation needed, but stdin is not a terminal", "add `--yes` to go on without it")
    typer.confirm(question, abort=True, err=True)
