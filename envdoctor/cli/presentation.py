"""How a result is shown: `--color`, `-q`, `-v` and `--redact`. Every command takes them, as defined here."""

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from envdoctor.cli.help_text import SHOWN
from envdoctor.cli.shown import Shown, show_as
from envdoctor.cli.values import Color

_LOOKING = ("check", "why", "impact", "diff", "fingerprint", "history", "cache", "sbom", "rollback", "prune")
"""First words of commands that read for seconds on a slow disk; the others show their own steps."""
ColorOption = Annotated[
    Color,
    typer.Option(
        "--color",
        envvar="ENVDOCTOR_COLOR",
        help="Colour the text. `auto`: on a terminal, unless NO_COLOR is set; FORCE_COLOR forces it.",
        rich_help_panel=SHOWN,
    ),
]
QuietOption = Annotated[
    bool,
    typer.Option(
        "--quiet", "-q", help="Show no progress; in a report one line a cause, and the count.", rich_help_panel=SHOWN
    ),
]
VerboseOption = Annotated[
    bool,
    typer.Option(
        "--verbose",
        "-v",
        help="Show lists and consequences in full, and checks that do not apply.",
        rich_help_panel=SHOWN,
    ),
]


RedactOption = Annotated[
    bool | None,
    typer.Option(
        "--redact/--no-redact",
        help="For sharing: hide the names of users, homes and this host. Markdown and GitHub do. Secrets always are.",
        rich_help_panel=SHOWN,
    ),
]


def _options(
    color: ColorOption = "auto",
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
    redact: RedactOption = None,
) -> None:
    """Name the options as typer reads them."""


def with_presentation(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the command with these options behind its own; it is called without them."""
    own, shared = inspect.signature(function), inspect.signature(_options)

    def command(**given: Any) -> Any:
        show_as(Shown(**{name: given.pop(name) for name in shared.parameters}))
        name = function.__module__.rpartition(".")[2].replace("_", " ")
        if name.split()[0] not in _LOOKING:
            return function(**given)
        from envdoctor.cli.late import never_silent

        with never_silent(f"{name}: still reading"):
            return function(**given)

    command.__doc__, command.__name__ = function.__doc__, function.__name__
    command.__annotations__ = {**function.__annotations__, **_options.__annotations__}
    merged = own.replace(parameters=[*own.parameters.values(), *shared.parameters.values()])
    setattr(command, "__signature__", merged)  # noqa: B010 - how inspect lets a function state its own
    return command
