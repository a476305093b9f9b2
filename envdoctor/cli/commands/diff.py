"""`envdoctor diff`: how two stacks differ, what matters most first."""

from typing import Annotated

import typer

from envdoctor.app import diff as app
from envdoctor.cli import completion
from envdoctor.cli.options import JsonOption, OutputOption, ReportFormatOption, VenvOption
from envdoctor.cli.output import finish
from envdoctor.doctor.workspace import Workspace
from envdoctor.errors import UsageError

_HELP = "A venv, a fingerprint (.json), a profile (name or .toml), or a backup: VENV@N."


def diff(
    a: Annotated[str, typer.Argument(metavar="A", autocompletion=completion.stacks, help=_HELP)] = "",
    b: Annotated[
        str,
        typer.Argument(metavar="B", autocompletion=completion.stacks, help="The same. Default: the venv of `--venv`."),
    ] = "",
    venv: VenvOption = "",
    since: Annotated[
        str, typer.Option("--since", metavar="TIME", help="Compare with what the venv was (2d, 12h, 2026-11-28).")
    ] = "",
    last_good: Annotated[
        bool, typer.Option("--last-good", help="Compare with what it was when a run last reached its profile's rate.")
    ] = False,
    output_format: ReportFormatOption = "text",
    json: JsonOption = False,
    output: OutputOption = "",
) -> int:
    """Compare two stacks: torch, libraries, files, packages, start-up code, sources, environment, caches, machine.

    Each of A and B is a venv's folder, a fingerprint file, a profile, or VENV@N, the Nth backup of a venv.
    `--since` and `--last-good` take A from the venv's journal (`envdoctor watch-stack`), and B is the venv.
    Exit codes: 0 equal, 1 different, 2 bad input, 3 equal as far as could be determined.
    """
    if since or last_good:
        if a or (since and last_good):
            hint = "give one of A, `--since` and `--last-good`; the venv is named by `--venv VENV`"
            raise UsageError("two stacks of the past are given", hint)
        done = app.diff_then(Workspace.open(venv), since, last_good=last_good)
        return finish(done, output_format, json=json, output=output)
    if not a:
        hint = "name a venv, a fingerprint, a profile or VENV@N, or give `--since 2d` or `--last-good`"
        raise UsageError("nothing to compare with", hint)
    if b and venv:
        raise UsageError("two stacks and `--venv` are given", "give only two of the three")
    done = app.diff(Workspace.open(venv), a, b)
    return finish(done, output_format, json=json, output=output)
