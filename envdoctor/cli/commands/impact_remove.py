"""`envdoctor impact remove`: what removing distributions would do."""

from typing import Annotated

import typer

from envdoctor.app import explore as app
from envdoctor.cli import completion
from envdoctor.cli.dialog import Terminal
from envdoctor.cli.options import JsonOption, OutputOption, ReportFormatOption, VenvOption
from envdoctor.cli.output import finish
from envdoctor.doctor.workspace import Workspace


def remove(
    distributions: Annotated[
        list[str],
        typer.Argument(metavar="DIST...", autocompletion=completion.distributions, help="Distributions of the venv."),
    ],
    venv: VenvOption = "",
    output_format: ReportFormatOption = "text",
    json: JsonOption = False,
    output: OutputOption = "",
) -> int:
    """Show which files would be removed, who else owns them, and what would no longer load.

    Computed from files; nothing is run or changed. Exit codes: 0 nothing else would break, 1 something would, 2 bad
    input.
    """
    done = app.impact_of_removal(Workspace.open(venv), distributions, Terminal())
    return finish(done, output_format, json=json, output=output)
