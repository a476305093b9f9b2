"""`envdoctor impact install`: what installing something would do."""

from typing import Annotated

import typer

from envdoctor.cli.impact_result import show
from envdoctor.cli.options import ColorOption, FormatOption, JsonOption, VenvOption
from envdoctor.cli.terminal import say
from envdoctor.doctor.workspace import Workspace
from envdoctor.explore.addition import Install, addition


def install(
    specs: Annotated[
        list[str], typer.Argument(metavar="SPEC...", help="Requirements, as `uv pip install` takes them.")
    ],
    venv: VenvOption = "",
    no_deps: Annotated[bool, typer.Option("--no-deps", help="Leave dependencies out.")] = False,
    upgrade: Annotated[bool, typer.Option("--upgrade", "-U", help="Upgrade what is there already.")] = False,
    offline: Annotated[bool, typer.Option("--offline", help="Use uv's cache and local sources only.")] = False,
    no_build_isolation: Annotated[
        bool,
        typer.Option("--no-build-isolation", help="Build with what the venv has, as flash-attn needs torch for it."),
    ] = False,
    output_format: FormatOption = "text",
    json: JsonOption = False,
    color: ColorOption = "auto",
) -> int:
    """Install into a scratch copy of the venv, compare the two, and delete the copy.

    uv starts the copy's interpreter; the venv itself is only read. Exit codes: 0 nothing would suffer, 1 something
    would, 2 bad input, 3 uv could not install it.
    """
    workspace = Workspace.open(venv)
    wanted = Install(
        specs=tuple(specs),
        no_deps=no_deps,
        upgrade=upgrade,
        offline=offline,
        no_build_isolation=no_build_isolation,
    )
    found = addition(workspace.target, workspace.host, wanted, say)
    return show(found, as_json=json or output_format == "json", color=color)
