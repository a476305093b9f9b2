"""`envdoctor explain`: what a check finds, why it matters, an example, the fix."""

from typing import Annotated

import typer

from envdoctor.app import checks as app
from envdoctor.cli import completion
from envdoctor.cli.options import FormatOption, JsonOption
from envdoctor.cli.output import finish


def explain(
    code: Annotated[
        str,
        typer.Argument(
            metavar="CODE",
            autocompletion=completion.checks,
            help="A check's code or name, as `envdoctor checks` lists them.",
        ),
    ],
    output_format: FormatOption = "text",
    json: JsonOption = False,
) -> int:
    """Say what a check finds, why it matters, with an example and the fix."""
    return finish(app.explain(code), output_format, json=json)
