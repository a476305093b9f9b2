"""`envdoctor capture`: a working venv as a profile and a lock that rebuild it."""

from typing import Annotated

import typer

from envdoctor.app import capture as app
from envdoctor.cli import completion
from envdoctor.cli.dialog import Terminal
from envdoctor.cli.options import DocumentOption, IgnoreOption, VenvOption, WithGateOption
from envdoctor.cli.output import finish
from envdoctor.cli.values import waivers
from envdoctor.doctor.workspace import Workspace
from envdoctor.wheels.pylock_text import Form

_WithOutside = Annotated[
    bool,
    typer.Option(
        "--with-outside",
        help="Also pin what the venv takes from outside: its base, the user site, PYTHONPATH, .pth folders.",
    ),
]


def capture(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the profile that is made.")],
    venv: VenvOption = "",
    project: Annotated[
        str, typer.Option("--project", metavar="DIR", help="Gets profiles/ and lockfiles/. Default: this folder.")
    ] = "",
    lock_format: Annotated[
        Form, typer.Option("--format", help="Format of the lock: hashed requirements that name no host, or PEP 751.")
    ] = "requirements",
    without: Annotated[
        list[str],
        typer.Option(
            "--without",
            metavar="DIST[=REASON]",
            autocompletion=completion.distributions,
            help="Leave a distribution out of the lock; with a reason where another one requires it. Can be repeated.",
        ),
    ] = [],  # noqa: B006 - typer reads the default and never shares it
    source: Annotated[
        list[str],
        typer.Option(
            "--source",
            metavar="PATTERN",
            help="Files of the training code to hash, below the project. Default: the Python files git tracks there.",
        ),
    ] = [],  # noqa: B006
    ignore: IgnoreOption = [],  # noqa: B006
    summary: Annotated[str, typer.Option("--summary", metavar="TEXT", help="One line about the stack.")] = "",
    offline: Annotated[
        bool, typer.Option("--offline", help="Ask no index: save every distribution as a wheel.")
    ] = False,
    with_outside: _WithOutside = False,
    with_gate: WithGateOption = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a profile and a lock of that name.")] = False,
    json: DocumentOption = False,
) -> int:
    """Write the profile and the hashed lock of a working venv, each hash proven to be that of the installed files.

    What no index has is saved as a wheel beside the lock. Exit codes: 0 captured, 1 it cannot be captured and nothing
    was written, 2 bad input, 4 uv or a folder it needs failed.
    """
    wishes = app.CaptureOptions(
        name=name,
        project=project,
        form=lock_format,
        without=tuple(without),
        sources=tuple(source),
        waivers=waivers(ignore),
        summary=summary,
        offline=offline,
        with_outside=with_outside,
        with_gate=with_gate,
        force=force,
    )
    return finish(app.capture(Workspace.open(venv), wishes, Terminal()), json=json)
