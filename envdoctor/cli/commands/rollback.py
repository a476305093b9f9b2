"""`envdoctor rollback`: put a kept venv back in one step; the one it replaces is kept in turn."""

from typing import Annotated

import typer

from envdoctor.app import generations as app
from envdoctor.cli import completion
from envdoctor.cli.dialog import Terminal
from envdoctor.cli.options import DryRunOption, FormatOption, JsonOption, PlanOption, VenvOption, YesOption
from envdoctor.cli.output import finish
from envdoctor.doctor.workspace import Workspace


def rollback(
    number: Annotated[
        int | None,
        typer.Argument(
            metavar="N",
            autocompletion=completion.backups,
            help="Which one, as `envdoctor history` lists them. Default: the newest.",
        ),
    ] = None,
    venv: VenvOption = "",
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    plan: PlanOption = "",
    output_format: FormatOption = "text",
    json: JsonOption = False,
) -> int:
    """Exchange the venv with a kept one, in one step; the venv before it becomes the newest backup.

    Exit codes: 0 done, 2 bad input, 4 failed with the venv as it was, 130 declined or interrupted.
    """
    wishes = app.RollbackOptions(dry_run=dry_run, yes=yes, plan=plan)
    done = app.rollback(Workspace.open(venv), number, wishes, Terminal())
    return finish(done, output_format, json=json)
