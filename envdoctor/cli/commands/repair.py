"""`envdoctor repair`: install again only what is damaged, on a copy, and swap it in."""

from typing import Annotated

import typer

from envdoctor.app import repair as app
from envdoctor.cli.dialog import Terminal
from envdoctor.cli.options import (
    DryRunOption,
    FormatOption,
    JsonOption,
    PlanOption,
    ProfileOption,
    VenvArgument,
    VenvOption,
    YesOption,
)
from envdoctor.cli.output import finish
from envdoctor.cli.values import one_venv
from envdoctor.doctor.workspace import Workspace


def repair(
    venv: VenvArgument = "",
    venv_option: VenvOption = "",
    profile: ProfileOption = "",
    offline: Annotated[bool, typer.Option("--offline", help="Use uv's cache and local sources only.")] = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    plan: PlanOption = "",
    output_format: FormatOption = "text",
    json: JsonOption = False,
) -> int:
    """Repair a venv with the fewest reinstalls, on a copy that is verified and swapped in; the old venv is kept.

    With a profile its pinned versions are put back; without one each package stays at its version. Packages that are
    not in the lock are left alone. Exit codes: 0 repaired or nothing to repair, 2 bad input, 4 not repaired (it failed,
    repair does not fix what was found, or the expected owner of a file is unknown) and the venv is unchanged, 130
    declined or interrupted.
    """
    workspace = Workspace.open(one_venv(venv, venv_option), profile)
    wishes = app.RepairOptions(offline=offline, dry_run=dry_run, yes=yes, plan=plan)
    return finish(app.repair(workspace, wishes, Terminal()), output_format, json=json)
