"""`envdoctor profile new`: a lock that another tool wrote as a profile."""

from typing import Annotated

import typer

from envdoctor.app import profile_new as app
from envdoctor.app.capture import place_for
from envdoctor.cli.dialog import Terminal
from envdoctor.cli.options import ExtraOption, FormatOption, GroupOption, JsonOption, WithGateOption, YesOption
from envdoctor.cli.output import finish
from envdoctor.facts.host import Host


def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the profile that is made.")],
    lock: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="FILE",
            help="uv.lock, poetry.lock, pdm.lock, pylock.toml, requirements.txt or conda-lock.yml.",
        ),
    ],
    project: Annotated[
        str, typer.Option("--project", metavar="DIR", help="Gets profiles/ and lockfiles/. Default: this folder.")
    ] = "",
    python: Annotated[
        str,
        typer.Option("--python", metavar="PYTHON", help="A version or an interpreter. Default: what uv takes there."),
    ] = "",
    extra: ExtraOption = [],  # noqa: B006 - typer reads the default and never shares it
    group: GroupOption = [],  # noqa: B006
    summary: Annotated[str, typer.Option("--summary", metavar="TEXT", help="One line about the stack.")] = "",
    with_gate: WithGateOption = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a profile and a lock of that name.")] = False,
    yes: YesOption = False,
    output_format: FormatOption = "text",
    json: JsonOption = False,
) -> int:
    """Write the profile and the hashed lock of a lock that uv, Poetry, PDM, conda-lock or a PEP 751 tool wrote.

    What is locked by its source (workspace members, folders, git, sdists) is built and kept as a wheel beside the lock.
    Exit codes: 0 written, 1 it cannot be written, 2 bad input, 4 uv failed; but for 0 nothing was written.
    """
    host = Host.current()
    wishes = app.ProfileOptions(
        place=place_for(name, project, "requirements", host, force=force),
        lock=lock,
        python=python,
        extras=tuple(extra),
        groups=tuple(group),
        summary=summary,
        with_gate=with_gate,
        yes=yes,
    )
    return finish(app.new(host, wishes, Terminal()), output_format, json=json)
