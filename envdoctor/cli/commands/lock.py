"""`envdoctor lock`: resolve requirements into a hashed lock that names no host."""

from typing import Annotated

import typer

from envdoctor.app import lock as app
from envdoctor.cli.dialog import Terminal
from envdoctor.cli.options import DocumentOption, WithGateOption
from envdoctor.cli.output import finish
from envdoctor.facts.host import Host
from envdoctor.wheels.pylock_text import Form


def lock(
    requirements: Annotated[str, typer.Argument(metavar="FILE", help="Direct requirements, one a line.")],
    python: Annotated[
        list[str],
        typer.Option(
            "--python",
            metavar="VERSION",
            help="Python the lock fits: by default that of the active or nearest venv, else 3.12. Can be repeated.",
        ),
    ] = [],  # noqa: B006 - typer reads the default and never shares it
    machine: Annotated[
        list[str],
        typer.Option("--machine", metavar="NAME", help="Machine the lock fits: by default this one. Can be repeated."),
    ] = [],  # noqa: B006
    exclude_newer: Annotated[
        str, typer.Option("--exclude-newer", metavar="TIME", help="Use nothing uploaded later (2026-04-24T00:00:00Z).")
    ] = "",
    undated: Annotated[
        list[str],
        typer.Option("--undated", metavar="NAME", help="Distribution whose source states no upload time."),
    ] = [],  # noqa: B006
    torch_backend: Annotated[
        str, typer.Option("--torch-backend", metavar="NAME", help="uv's torch backend: cu128, cpu.")
    ] = "",
    upgrade: Annotated[
        list[str],
        typer.Option(
            "--upgrade",
            metavar="NAME",
            help="Move only this distribution; other pins of the lock stay. Can be repeated.",
        ),
    ] = [],  # noqa: B006
    lock_format: Annotated[
        Form, typer.Option("--format", help="Hashed requirements that name no host, or PEP 751 (pylock.NAME.toml).")
    ] = "requirements",
    with_gate: WithGateOption = False,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="The lock; its head comment is kept. Default: stdout.")
    ] = "",
    json: DocumentOption = False,
) -> int:
    """Resolve requirements with uv and write name==version with the sha256 of every wheel that fits.

    A requirement line may carry --hash options: attested hashes of wheels that no reachable index has. With
    --upgrade the lock that --output names is updated instead of resolved from nothing.
    """
    wishes = app.LockOptions(
        requirements=requirements,
        pythons=tuple(python),
        machines=tuple(machine),
        form=lock_format,
        exclude_newer=exclude_newer,
        undated=tuple(undated),
        torch_backend=torch_backend,
        upgrade=tuple(upgrade),
        with_gate=with_gate,
        output=output,
    )
    return finish(app.lock(wishes, Host.current(), Terminal()), json=json)
