"""`envdoctor restore`: the known-good stack, built beside, verified, swapped in."""

from typing import Annotated

import typer

from envdoctor.app import restore as app
from envdoctor.cli.dialog import Terminal
from envdoctor.cli.options import (
    DrawnFormatOption,
    DryRunOption,
    JsonOption,
    OutputOption,
    PlanOption,
    ProfileOption,
    VenvArgument,
    VenvOption,
    YesOption,
)
from envdoctor.cli.output import finish
from envdoctor.cli.values import one_venv
from envdoctor.doctor.workspace import Workspace
from envdoctor.errors import UsageError
from envdoctor.stack.plan import Extent

RehearseOption = Annotated[
    bool,
    typer.Option("--rehearse", help="Build and verify the copy, from the wheels that are available, and discard it."),
]
SourcesOption = Annotated[
    bool,
    typer.Option(
        "--sources", help="Also put the profile's source files back, from git; changed files are never overwritten."
    ),
]
UnlessInUseOption = Annotated[
    bool, typer.Option("--unless-in-use", help="Refuse to swap while a process runs from the venv.")
]
VerifyOption = Annotated[
    Extent,
    typer.Option(
        "--verify", help="Read every file, or those that are not known to be unchanged since an earlier restore."
    ),
]


def restore(
    venv: VenvArgument = "",
    venv_option: VenvOption = "",
    profile: ProfileOption = "",
    python: Annotated[
        str, typer.Option("--python", metavar="PYTHON", help="Base interpreter: a path, or a version such as 3.12.")
    ] = "",
    dry_run: DryRunOption = False,
    rehearse: RehearseOption = False,
    offline: Annotated[bool, typer.Option("--offline", help="Use uv's cache and local sources only.")] = False,
    wheelhouse: Annotated[
        list[str],
        typer.Option("--wheelhouse", metavar="DIR", help="Folder of wheels, searched first (see `fetch`). Repeatable."),
    ] = [],  # noqa: B006 - typer reads the default and never shares it
    yes: YesOption = False,
    plan: PlanOption = "",
    sources: SourcesOption = False,
    unless_in_use: UnlessInUseOption = False,
    verify: VerifyOption = "changed",
    force: Annotated[bool, typer.Option("--force", help="Rebuild even when the stack is already in place.")] = False,
    output_format: DrawnFormatOption = "text",
    json: JsonOption = False,
    output: OutputOption = "",
) -> int:
    """Rebuild a profile's stack beside the venv, verify every file, and swap it in; the old venv is kept.

    Exit codes: 0 restored or already in place, 2 bad input, 4 failed with the old venv as it was, 130 declined or
    interrupted.
    """
    wishes = app.RestoreOptions(
        python=python,
        dry_run=dry_run,
        rehearse=rehearse,
        offline=offline,
        wheelhouses=tuple(wheelhouse),
        yes=yes,
        sources=sources,
        unless_in_use=unless_in_use,
        force=force,
        verify=verify,
        plan=plan,
    )
    if output_format in ("html", "svg") and not dry_run and not json:
        raise UsageError(f"--format {output_format} shows the plan of a restore", "add `--dry-run`")
    workspace = Workspace.open(one_venv(venv, venv_option), profile)
    return finish(app.restore(workspace, wishes, Terminal()), output_format, json=json, output=output)
