"""`envdoctor impact install`: what installing something would do."""

from typing import Annotated

import typer

from envdoctor.app import explore as app
from envdoctor.cli.dialog import Terminal
from envdoctor.cli.options import JsonOption, OutputOption, ReportFormatOption, VenvOption
from envdoctor.cli.output import finish
from envdoctor.doctor.workspace import Workspace
from envdoctor.explore.addition import Install


def install(
    specs: Annotated[
        list[str], typer.Argument(metavar="SPEC...", help="Requirements, as `uv pip install` takes them.")
    ],
    venv: VenvOption = "",
    no_deps: Annotated[bool, typer.Option("--no-deps", help="Leave dependencies out.")] = False,
    upgrade: Annotated[bool, typer.Option("--upgrade", "-U", help="Upgrade what is already installed.")] = False,
    offline: Annotated[bool, typer.Option("--offline", help="Use uv's cache and local sources only.")] = False,
    no_build_isolation: Annotated[
        bool,
        typer.Option("--no-build-isolation", help="Build against the packages of the venv, as flash-attn needs torch."),
    ] = False,
    output_format: ReportFormatOption = "text",
    json: JsonOption = False,
    output: OutputOption = "",
) -> int:
    """Install into a scratch copy of the venv, compare the two, and delete the copy.

    uv starts the copy's interpreter; the venv itself is only read. Exit codes: 0 nothing would break, 1 something
    would, 2 bad input, 3 uv could not install it.
    """
    wanted = Install(
        specs=tuple(specs),
        no_deps=no_deps,
        upgrade=upgrade,
        offline=offline,
        no_build_isolation=no_build_isolation,
    )
    done = app.impact_of_install(Workspace.open(venv), wanted, Terminal())
    return finish(done, output_format, json=json, output=output)
