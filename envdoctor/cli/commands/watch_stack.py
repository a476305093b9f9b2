"""`envdoctor watch-stack`: what the stack of a venv was, and when."""

from typing import Annotated

import typer

from envdoctor.app import watch_stack as app
from envdoctor.cli.options import FormatOption, JsonOption, ProfileOption, VenvArgument
from envdoctor.cli.output import finish
from envdoctor.doctor.workspace import Workspace
from envdoctor.errors import UsageError


def watch_stack(
    venv: VenvArgument = "",
    profile: ProfileOption = "",
    once: Annotated[
        bool, typer.Option("--once", help="Append what the stack is now, and what changed, to the venv's journal.")
    ] = False,
    good: Annotated[
        bool, typer.Option("--good", help="With `--once`: note the stack as one on which a run went well.")
    ] = False,
    every: Annotated[str, typer.Option("--every", help="How often: hourly, daily or weekly.")] = "hourly",
    cron: Annotated[bool, typer.Option("--cron", help="Print a line for a crontab in place of units.")] = False,
    output_format: FormatOption = "text",
    json: JsonOption = False,
) -> int:
    """Print a systemd timer that keeps a journal of the venv's stack; with `--once`, make one entry of it.

    `envdoctor diff --since 2d` and `envdoctor diff --last-good` compare with the journal.
    """
    if good and not once:
        raise UsageError("--good is about an entry, and none is made", "add `--once`")
    if once and cron:
        raise UsageError("--cron prints a timer, and `--once` makes an entry", "give one of both")
    workspace = Workspace.open(venv, profile)
    done = app.once(workspace, "good" if good else "seen") if once else app.units(workspace, every, cron=cron)
    return finish(done, output_format, json=json)
