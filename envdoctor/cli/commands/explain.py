"""`envdoctor explain`: a check in full, or the checks that find the cause of an error text."""

import sys
from typing import Annotated

import typer

from envdoctor.app import explain as app
from envdoctor.cli import completion
from envdoctor.cli.options import FormatOption, JsonOption
from envdoctor.cli.output import finish
from envdoctor.errors import UsageError


def explain(
    code: Annotated[
        str,
        typer.Argument(
            metavar="CODE|TEXT",
            autocompletion=completion.checks,
            help="A check's code or name, as `envdoctor checks` lists them, or an error text in quotes.",
        ),
    ] = "",
    log: Annotated[
        str, typer.Option("--log", metavar="FILE", help="Find known error texts in this log; `-` is stdin.")
    ] = "",
    output_format: FormatOption = "text",
    json: JsonOption = False,
) -> int:
    """Say what a check finds and how to fix it, or which checks find the cause of an error text."""
    if bool(code.strip()) == bool(log):
        raise UsageError(
            "both a text and --log were given" if log else "no code, no error text and no --log was given",
            '`envdoctor explain ED201`, `envdoctor explain "TEXT"` or `envdoctor explain --log FILE`',
        )
    result = app.explain_log(log, sys.stdin.buffer) if log else app.explain(code)
    return finish(result, output_format, json=json)
