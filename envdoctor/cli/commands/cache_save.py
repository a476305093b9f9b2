"""`envdoctor cache save`: one archive of the caches, with a manifest of what they are for."""

from typing import Annotated

import typer

from envdoctor.app import cache_changes as app
from envdoctor.cli.cache_options import IncludeOption
from envdoctor.cli.dialog import Terminal
from envdoctor.cli.options import FormatOption, JsonOption, LiveOption, ProfileOption, VenvOption
from envdoctor.cli.output import finish
from envdoctor.doctor.workspace import Workspace


def save(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the snapshot.")],
    venv: VenvOption = "",
    profile: ProfileOption = "",
    live: LiveOption = False,
    include: IncludeOption = [],  # noqa: B006 - typer reads the default and never shares it
    sign: Annotated[
        str, typer.Option("--sign", metavar="KEY", help="Sign the archive with this ssh key: NAME.tar.zst.sig.")
    ] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace a snapshot of that name.")] = False,
    output_format: FormatOption = "text",
    json: JsonOption = False,
) -> int:
    """Write the inductor and Triton caches of a venv into one archive with a readable manifest.

    Save right after a run of this environment: the manifest says that this environment filled the cache.
    """
    return finish(
        app.save(Workspace.open(venv, profile), name, include, Terminal(), live=live, force=force, key=sign),
        output_format,
        json=json,
    )
