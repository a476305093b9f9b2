"""`envdoctor cache restore`: merge a snapshot into the caches of a venv."""

from typing import Annotated

import typer

from envdoctor.app import cache_restore as app
from envdoctor.cache.vouched import Vouching
from envdoctor.cli import completion
from envdoctor.cli.cache_options import IncludeOption, Sha256Option, SignersOption
from envdoctor.cli.dialog import Terminal
from envdoctor.cli.options import DryRunOption, FormatOption, JsonOption, LiveOption, ProfileOption, VenvOption
from envdoctor.cli.output import finish
from envdoctor.doctor.workspace import Workspace


def restore(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", autocompletion=completion.snapshots, help="A snapshot's name, or the path of its archive."
        ),
    ],
    venv: VenvOption = "",
    profile: ProfileOption = "",
    sha256: Sha256Option = "",
    signers: SignersOption = "",
    live: LiveOption = False,
    include: IncludeOption = [],  # noqa: B006 - typer reads the default and never shares it
    force: Annotated[
        bool, typer.Option("--force", help="Restore a snapshot of another machine or stack anyway.")
    ] = False,
    dry_run: DryRunOption = False,
    output_format: FormatOption = "text",
    json: JsonOption = False,
) -> int:
    """Merge a snapshot into a venv's caches: all of it is verified first, and no newer entry is overwritten.

    A snapshot is code that torch will run: restore only what you or someone you trust made; `--sha256` and
    `--signers` prove it before anything is unpacked. All of it is merged, or nothing. Exit codes:
    0 restored, 1 refused (another machine's, damaged or forged), 2 bad input.
    """
    workspace = Workspace.open(venv, profile)
    wishes = app.CacheRestoreOptions(
        vouching=Vouching(sha256=sha256, signers=signers),
        include=tuple(include),
        live=live,
        force=force,
        dry_run=dry_run,
    )
    done = app.restore(workspace, name, wishes, Terminal())
    return finish(done, output_format, json=json)
