"""`envdoctor check`: say what is wrong with an environment, cause first."""

import os
import sys
from typing import Annotated

import typer

from envdoctor.cli.options import (
    ColorOption,
    DeepOption,
    FormatOption,
    IgnoreOption,
    JsonOption,
    OutputOption,
    ProfileOption,
    QuietOption,
    VenvArgument,
    VerboseOption,
    waivers,
)
from envdoctor.cli.patient import Request, examine_request
from envdoctor.cli.terminal import style_for, write_result
from envdoctor.exitcodes import ExitCode
from envdoctor.model.finding import Severity


def check(
    venv: VenvArgument = "",
    profile: ProfileOption = "",
    fingerprint: Annotated[
        str,
        typer.Option(
            "--fingerprint",
            metavar="FILE",
            help="Judge the facts written by `envdoctor fingerprint` instead of a venv.",
        ),
    ] = "",
    deep: DeepOption = False,
    ignore: IgnoreOption = [],  # noqa: B006 - typer reads the default and never shares it
    fail_on: Annotated[
        Severity,
        typer.Option("--fail-on", envvar="ENVDOCTOR_FAIL_ON", help="Exit 1 for findings at or above this severity."),
    ] = "error",
    exit_zero: Annotated[
        bool, typer.Option("--exit-zero", help="Exit 0 whatever was found; bad input still exits 2.")
    ] = False,
    output_format: FormatOption = "text",
    json: JsonOption = False,
    output: OutputOption = "",
    color: ColorOption = "auto",
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> int:
    """Say what is wrong with a venv, cause first, with the command that mends it.

    Nothing of the venv is run or imported. Exit codes: 0 clean, 1 findings, 2 bad input, 3 could not tell.
    """
    header, verdict = examine_request(
        Request(venv=venv, profile=profile, fingerprint=fingerprint, deep=deep, quiet=quiet, waivers=waivers(ignore))
    )
    if json or output_format == "json":
        from envdoctor.report import as_json

        text = as_json.dump(as_json.document(header, verdict, fail_on=fail_on))
    else:
        from envdoctor.report import as_text

        stream = None if output else sys.stdout
        style = style_for(stream, os.environ, color=color, quiet=quiet, verbose=verbose)
        text = as_text.render(header, verdict, style, fail_on=fail_on)
    write_result(text, output)
    return ExitCode.OK if exit_zero else verdict.exit_code(fail_on)
