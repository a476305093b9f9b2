"""`envdoctor cache gc`: free space, never of what a profile keeps; shown first, and undone by `cache undo`."""

from typing import Annotated

import typer

from envdoctor.app import cache_gc as app
from envdoctor.cache.gc import Wish
from envdoctor.cli.dialog import Terminal
from envdoctor.cli.options import (
    DryRunOption,
    FormatOption,
    JsonOption,
    ProfileOption,
    VenvArgument,
    VenvOption,
    YesOption,
)
from envdoctor.cli.output import finish
from envdoctor.cli.values import one_venv
from envdoctor.doctor.workspace import Workspace

_DAY = 86_400


def gc(
    venv: VenvArgument = "",
    venv_option: VenvOption = "",
    profile: ProfileOption = "",
    keep_for: Annotated[
        list[str],
        typer.Option(
            "--keep-for",
            metavar="NAME",
            help="Keep this profile's entries, beside those of every known profile. Can be repeated.",
        ),
    ] = [],  # noqa: B006 - typer reads the default and never shares it
    older_than: Annotated[
        float | None, typer.Option("--older-than", metavar="DAYS", help="Take entries written longer ago than this.")
    ] = None,
    max_size: Annotated[
        float | None, typer.Option("--max-size", metavar="MB", help="Take the oldest entries until the rest fits.")
    ] = None,
    damaged: Annotated[
        bool, typer.Option("--damaged", help="Take damaged entries, a profile's too: they cannot hit.")
    ] = False,
    other_keys: Annotated[
        bool, typer.Option("--other-keys", help="Take entries that belong to another torch, GPU or configuration.")
    ] = False,
    purge: Annotated[bool, typer.Option("--purge", help="Delete what earlier clean-ups took, for good.")] = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    output_format: FormatOption = "text",
    json: JsonOption = False,
) -> int:
    """Free space in a venv's caches. Entries are shown first, and stay in quarantine until `--purge`.

    Entries of a profile's newest manifest stay, and so does a cache that a live process uses, as far as this user may
    look into processes; what is not known of a shared cache is said. Exit codes: 0 done or nothing to do, 2 bad input,
    130 declined or interrupted.
    """
    wish = Wish(
        older_than_seconds=None if older_than is None else older_than * _DAY,
        maximum_bytes=None if max_size is None else int(max_size * 1e6),
        damaged=damaged,
        other_keys=other_keys,
    )
    wishes = app.CleanupOptions(entries=wish, keep_for=tuple(keep_for), purge=purge, dry_run=dry_run, yes=yes)
    workspace = Workspace.open(one_venv(venv, venv_option), profile)
    return finish(app.gc(workspace, wishes, Terminal()), output_format, json=json)
