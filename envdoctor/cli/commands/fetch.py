"""`envdoctor fetch`: every wheel of a profile's lock in one folder, for a machine without an index."""

from typing import Annotated

import typer

from envdoctor.app import fetch as app
from envdoctor.cli.dialog import Terminal
from envdoctor.cli.endings import say_error
from envdoctor.cli.options import FormatOption, JsonOption, ProfileOption
from envdoctor.cli.output import finish
from envdoctor.doctor.workspace import Workspace
from envdoctor.errors import FetchError
from envdoctor.report.commands.fetch import missing


def fetch(
    profile: ProfileOption = "",
    wheelhouse: Annotated[
        str, typer.Option("--wheelhouse", metavar="DIR", help="Folder for the wheels; created if it is missing.")
    ] = "",
    python: Annotated[
        str,
        typer.Option("--python", metavar="VERSION", help="Python the wheels are for. Default: the profile's first."),
    ] = "",
    machine: Annotated[
        str, typer.Option("--machine", metavar="NAME", help="Machine they are for. Default: this one's (x86_64).")
    ] = "",
    output_format: FormatOption = "text",
    json: JsonOption = False,
) -> int:
    """Fetch every wheel of a profile's lock into a folder, each verified by its sha256.

    Wheels that are already there are verified, not fetched again; an interrupted fetch continues where it stopped. To
    restore from the folder, without an index: `envdoctor restore --profile NAME --offline --wheelhouse DIR`. Exit
    codes: 0 complete, 2 bad input, 4 some could not be fetched, 130 interrupted.
    """
    wishes = app.FetchOptions(wheelhouse=wheelhouse, python=python, machine=machine)
    done = app.fetch(Workspace.open(profile=profile), wishes, Terminal())
    code = finish(done, output_format, json=json)
    if done.data.fetched.missing:
        return say_error(FetchError(*missing(done.data.fetched)))
    return code
