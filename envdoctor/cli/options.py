"""Options that several commands share: one spelling, one help text, one environment variable each."""

from typing import Annotated

import typer

from envdoctor.cli import completion
from envdoctor.cli.help_text import CHANGED, LOOKED_AT, RESULT
from envdoctor.cli.values import DrawnFormat, Format, ReportFormat

_VENV_HELP = (
    "A venv, its interpreter or a project with a .venv. Default: $VIRTUAL_ENV, $CONDA_PREFIX, or the nearest .venv."
)
VenvArgument = Annotated[str, typer.Argument(metavar="VENV", help=_VENV_HELP)]
VenvOption = Annotated[str, typer.Option("--venv", metavar="VENV", help=_VENV_HELP, rich_help_panel=LOOKED_AT)]
ProfileOption = Annotated[
    str,
    typer.Option(
        "--profile",
        "-p",
        metavar="NAME",
        autocompletion=completion.profiles,
        envvar="ENVDOCTOR_PROFILE",
        help="Known-good stack: a name, or a path to its TOML.",
        rich_help_panel=LOOKED_AT,
    ),
]
FormatOption = Annotated[
    Format,
    typer.Option(
        "--format", envvar="ENVDOCTOR_FORMAT", help="How the result is written to stdout.", rich_help_panel=RESULT
    ),
]
ReportFormatOption = Annotated[
    ReportFormat,
    typer.Option(
        "--format",
        envvar="ENVDOCTOR_FORMAT",
        help="How the result is written: html is a page, svg a picture, markdown for an issue, the others for CI.",
        rich_help_panel=RESULT,
    ),
]
DrawnFormatOption = Annotated[
    DrawnFormat,
    typer.Option(
        "--format",
        envvar="ENVDOCTOR_FORMAT",
        help="How the result is written: html is a page, svg a picture.",
        rich_help_panel=RESULT,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="The same as `--format json`.", rich_help_panel=RESULT)]
DocumentOption = Annotated[
    bool,
    typer.Option("--json", help="Write the result as one JSON document to stdout.", rich_help_panel=RESULT),
]
"""Where `--format` is that of a lock."""
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Show what would happen and change nothing.", rich_help_panel=CHANGED)
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.", rich_help_panel=CHANGED)]
PlanOption = Annotated[
    str,
    typer.Option(
        "--plan",
        metavar="DIGEST",
        help="Carry out the plan that `--dry-run --json` showed with this digest, without a question; refuse another.",
        rich_help_panel=CHANGED,
    ),
]
OutputOption = Annotated[
    str,
    typer.Option(
        "--output", "-o", metavar="FILE", help="Write the result to FILE instead of stdout.", rich_help_panel=RESULT
    ),
]
WithGateOption = Annotated[
    bool,
    typer.Option("--with-gate", help="Add the launch gate to the lock; its wheel goes into a folder beside it."),
]
DeepOption = Annotated[
    bool,
    typer.Option(
        "--deep",
        help="Hash every installed file and compare it with RECORD; unchanged files are not hashed again.",
        rich_help_panel=LOOKED_AT,
    ),
]
IgnoreOption = Annotated[
    list[str],
    typer.Option(
        "--ignore",
        metavar="CODE=REASON",
        autocompletion=completion.waived,
        help="Waive the findings of a code. The reason is required and shown. Can be repeated.",
    ),
]
TrustVariablesOption = Annotated[
    bool,
    typer.Option("--trust-variables", help="Let the profile set variables that load code: LD_*, PYTHONPATH, PATH."),
]
LockOption = Annotated[
    str,
    typer.Option(
        "--lock",
        metavar="FILE",
        help="Compare with a lock of any tool in place of a profile: uv.lock, pylock.toml, requirements.txt, ….",
        rich_help_panel=LOOKED_AT,
    ),
]
RequireOption = Annotated[
    list[str],
    typer.Option(
        "--require",
        metavar="NAME[>=V]",
        help="Exit 1 unless this distribution is installed: `--require torch`. Can be repeated.",
        rich_help_panel=LOOKED_AT,
    ),
]
ExtraOption = Annotated[
    list[str],
    typer.Option(
        "--extra",
        metavar="NAME",
        help="An optional part of the lock's project. Can be repeated.",
        rich_help_panel=LOOKED_AT,
    ),
]
GroupOption = Annotated[
    list[str],
    typer.Option(
        "--group",
        metavar="NAME",
        help="A dependency group of the lock, besides those its tool takes by default. Can be repeated.",
        rich_help_panel=LOOKED_AT,
    ),
]
LiveOption = Annotated[
    bool,
    typer.Option(
        "--live", help="Ask the venv's own torch for its key: runs the venv's interpreter.", rich_help_panel=LOOKED_AT
    ),
]
