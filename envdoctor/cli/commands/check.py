"""`envdoctor check`: say what is wrong with an environment, cause first."""

import os
import sys
from typing import Annotated

import typer

from envdoctor.cli.hashing import facts_of
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
    VenvOption,
    VerboseOption,
    one_venv,
    requirements,
    waivers,
)
from envdoctor.cli.terminal import style_for, write_result
from envdoctor.doctor.workspace import Workspace
from envdoctor.documents.fingerprint_file import read
from envdoctor.errors import UsageError
from envdoctor.exitcodes import ExitCode
from envdoctor.facts.context import Options
from envdoctor.model.finding import Severity


def check(
    venv: VenvArgument = "",
    venv_option: VenvOption = "",
    profile: ProfileOption = "",
    fingerprint: Annotated[
        str,
        typer.Option(
            "--fingerprint",
            metavar="FILE",
            help="Check a saved fingerprint instead of a venv.",
        ),
    ] = "",
    deep: DeepOption = False,
    require: Annotated[
        list[str],
        typer.Option(
            "--require",
            metavar="NAME[>=V]",
            help="Exit 1 unless this distribution is installed: `--require torch`. Can be repeated.",
        ),
    ] = [],  # noqa: B006 - typer reads the default and never shares it
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
    named = one_venv(venv, venv_option)
    _refuse_both(fingerprint, named, deep=deep)
    accepted, required = waivers(ignore), requirements(require)
    workspace = Workspace.open(named, profile)
    facts = read(fingerprint) if fingerprint else facts_of(workspace, Options(deep=deep), quiet=quiet)
    header, verdict = workspace.header(facts), workspace.verdict(facts, accepted, required)
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


def _refuse_both(fingerprint: str, venv: str, *, deep: bool) -> None:
    if fingerprint and venv:
        raise UsageError("both a venv and --fingerprint were given", "give only one of them")
    if fingerprint and deep:
        raise UsageError(
            "--deep hashes a venv's files, a fingerprint has none",
            "write it with its hashes: `envdoctor fingerprint --deep VENV -o FILE`",
        )
