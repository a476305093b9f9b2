"""`envdoctor impact remove`: what removing distributions would do."""

from typing import Annotated

import typer

from envdoctor.cli.impact_result import show
from envdoctor.cli.options import ColorOption, FormatOption, JsonOption, VenvOption
from envdoctor.doctor.workspace import Workspace
from envdoctor.explore.environment import explore
from envdoctor.explore.removal import removal


def remove(
    distributions: Annotated[list[str], typer.Argument(metavar="DIST...", help="Distributions of the venv.")],
    venv: VenvOption = "",
    output_format: FormatOption = "text",
    json: JsonOption = False,
    color: ColorOption = "auto",
) -> int:
    """Tell which files would go, who else owns them, and what would no longer load.

    Computed from files; nothing is run or changed. Exit codes: 0 nothing else would suffer, 1 something would, 2 bad
    input.
    """
    workspace = Workspace.open(venv)
    found = removal(explore(workspace.target, workspace.host), distributions)
    return show(found, as_json=json or output_format == "json", color=color)
