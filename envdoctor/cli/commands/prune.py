"""`envdoctor prune`: remove old backups, shown first; nothing else, and no compile cache."""

from typing import Annotated

import typer

from envdoctor.app import generations as app
from envdoctor.cli.dialog import Terminal
from envdoctor.cli.options import DryRunOption, FormatOption, JsonOption, VenvArgument, VenvOption, YesOption
from envdoctor.cli.output import finish
from envdoctor.cli.values import one_venv
from envdoctor.doctor.workspace import Workspace


def prune(
    venv: VenvArgument = "",
    venv_option: VenvOption = "",
    keep: Annotated[
        int | None,
        typer.Option(
            "--keep", metavar="K", help="How many of the newest stay; required without --broken.", show_default=False
        ),
    ] = None,
    broken: Annotated[
        bool,
        typer.Option("--broken", help="Remove only backups in which the checks found errors when they were put away."),
    ] = False,
    with_unrecorded: Annotated[
        bool,
        typer.Option(
            "--with-unrecorded",
            help="Also remove backups with files that no package installed, such as yours.",
        ),
    ] = False,
    while_in_use: Annotated[
        bool, typer.Option("--while-in-use", help="Also remove backups that a running process uses; it may fail then.")
    ] = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    output_format: FormatOption = "text",
    json: JsonOption = False,
) -> int:
    """Remove all but the newest K backups. The venv in place, uv's cache and compile caches are not touched.

    Exit codes: 0 done or nothing to do, 2 bad input, 4 failed, 130 declined or interrupted.
    """
    workspace = Workspace.open(one_venv(venv, venv_option))
    done = app.prune(
        workspace,
        keep,
        Terminal(),
        broken=broken,
        with_unrecorded=with_unrecorded,
        while_in_use=while_in_use,
        dry_run=dry_run,
        yes=yes,
    )
    return finish(done, output_format, json=json)
