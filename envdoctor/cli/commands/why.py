"""`envdoctor why`: where something in an environment comes from, and who depends on it."""

from typing import Annotated

import typer

from envdoctor.app import explore as app
from envdoctor.cli import completion
from envdoctor.cli.options import FormatOption, JsonOption, VenvOption
from envdoctor.cli.output import finish
from envdoctor.doctor.workspace import Workspace


def why(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            autocompletion=completion.named_things,
            help="A soname (libcudnn.so.9), a module, a path, or a distribution.",
        ),
    ],
    venv: VenvOption = "",
    output_format: FormatOption = "text",
    json: JsonOption = False,
) -> int:
    """Show which file a library or module is loaded from, who owns a path, and what requires a distribution.

    Nothing of the venv is run or imported. Exit codes: 0 answered, 2 nothing has that name.
    """
    return finish(app.why(Workspace.open(venv), name), output_format, json=json)
