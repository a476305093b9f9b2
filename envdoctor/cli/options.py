"""Options that several commands share: one spelling, one help text, one environment variable each."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from envdoctor.cli import completion
from envdoctor.errors import UsageError

if TYPE_CHECKING:
    from envdoctor.model.profile import Waiver

Format = Literal["text", "json"]
Color = Literal["auto", "always", "never"]

_VENV_HELP = (
    "A venv, its interpreter or a project with a .venv. Default: $VIRTUAL_ENV, $CONDA_PREFIX, or the nearest .venv."
)
VenvArgument = Annotated[str, typer.Argument(metavar="VENV", help=_VENV_HELP)]
VenvOption = Annotated[str, typer.Option("--venv", metavar="VENV", help=_VENV_HELP)]
ProfileOption = Annotated[
    str,
    typer.Option(
        "--profile",
        "-p",
        metavar="NAME",
        autocompletion=completion.profiles,
        envvar="ENVDOCTOR_PROFILE",
        help="Known-good stack: a name, or a path to its TOML.",
    ),
]
FormatOption = Annotated[
    Format, typer.Option("--format", envvar="ENVDOCTOR_FORMAT", help="How the result is written to stdout.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="The same as `--format json`.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show what would happen and change nothing.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
OutputOption = Annotated[
    str, typer.Option("--output", "-o", metavar="FILE", help="Write the result to FILE instead of stdout.")
]
ColorOption = Annotated[
    Color,
    typer.Option(
        "--color",
        envvar="ENVDOCTOR_COLOR",
        help="Colour the text. `auto`: on a terminal, unless NO_COLOR is set; FORCE_COLOR forces it.",
    ),
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="One line a cause, and the count.")]
VerboseOption = Annotated[
    bool, typer.Option("--verbose", "-v", help="Consequences in full, and checks that do not apply.")
]
WithGateOption = Annotated[
    bool,
    typer.Option("--with-gate", help="Add the launch gate to the lock; its wheel goes into a folder beside it."),
]
DeepOption = Annotated[
    bool,
    typer.Option(
        "--deep", help="Hash every installed file and compare it with RECORD; files that have not changed only once."
    ),
]
IgnoreOption = Annotated[
    list[str],
    typer.Option(
        "--ignore",
        metavar="CODE=REASON",
        help="Waive the findings of a code. The reason is required and shown. Can be repeated.",
    ),
]


def one_venv(argument: str, option: str) -> str:
    """Return the venv of a command line that can name it as an argument and by `--venv`.

    Raises UsageError when both are given and differ.
    """
    if argument and option and argument != option:
        raise UsageError(f"two venvs are given: `{argument}` and `--venv {option}`", "give only one of them")
    return argument or option


def requirements(lines: list[str]) -> tuple[str, ...]:
    """Return the requirements of `--require`; raise UsageError for one that is not a name with version clauses."""
    if not lines:
        return ()
    from packaging.requirements import InvalidRequirement, Requirement

    for line in lines:
        try:
            wanted = Requirement(line)
        except InvalidRequirement as error:
            raise UsageError(
                f"`--require {line}` is not a requirement",
                'name a distribution, with version clauses if need be: `--require "torch>=2.8"`',
            ) from error
        if wanted.url or wanted.extras or wanted.marker:
            raise UsageError(
                f"`--require {line}`: a URL, an extra or a marker cannot be looked up in an environment",
                f"name the distribution and its version: `--require {wanted.name}`",
            )
    return tuple(lines)


def waivers(ignored: list[str]) -> "tuple[Waiver, ...]":
    """Return the waivers that `--ignore CODE=REASON` asks for, where CODE may be a check's name too.

    Raises UsageError for one without a reason, or of no check.
    """
    if not ignored:
        return ()
    from envdoctor.cli.rules import find_rule
    from envdoctor.model.profile import Waiver

    parsed: list[Waiver] = []
    for item in ignored:
        code, _, reason = item.partition("=")
        if not code.strip() or not reason.strip():
            raise UsageError(
                f"`--ignore {item}` gives no reason",
                f'say why it is accepted: `--ignore {code.strip() or "ED000"}="the reason"`',
            )
        parsed.append(Waiver(code=find_rule(code.strip()).code, reason=reason.strip()))
    return tuple(parsed)
