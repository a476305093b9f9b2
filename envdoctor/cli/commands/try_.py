"""`envdoctor try`: a change on a copy of the venv, with the user's own installer; kept, or thrown away."""

from typing import Annotated

import typer

from envdoctor.app.trying import TryOptions, trying
from envdoctor.cli.dialog import Terminal
from envdoctor.cli.options import FormatOption, JsonOption, ProfileOption, VenvOption, YesOption
from envdoctor.cli.output import finish
from envdoctor.doctor.workspace import Workspace
from envdoctor.errors import UsageError
from envdoctor.trial.attempt import TryRequest, from_text


def try_(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="-- INSTALLER",
            help="`uv pip install …`, `pip install …`; or the word `shell`, for a shell in the copy.",
        ),
    ] = [],  # noqa: B006 - typer reads the default and never shares it
    specs: Annotated[
        list[str], typer.Option("--with", metavar="SPEC", help="Try `uv pip install SPEC`. Can be repeated.")
    ] = [],  # noqa: B006 - as above
    test: Annotated[
        str, typer.Option("--test", metavar="CMD", help="Run this in the copy; the copy is only good if it succeeds.")
    ] = "",
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", help="A test that takes longer than this fails.")
    ] = 600.0,
    venv: VenvOption = "",
    profile: ProfileOption = "",
    discard: Annotated[bool, typer.Option("--discard", help="Throw the copy away without a question.")] = False,
    yes: YesOption = False,
    output_format: FormatOption = "text",
    json: JsonOption = False,
) -> int:
    """Make a change in a copy of the venv, show what it does, then swap the copy in or throw it away.

    `--yes` keeps it only if nothing would break and the test succeeds. Exit codes: 0 kept, or harmless and not kept;
    1 thrown away and something would break, 2 bad input, 4 failed with the venv as it was, 130 interrupted.
    """
    if bool(words) == bool(specs):
        raise UsageError(
            "one change is needed", "as in `envdoctor try -- uv pip install numpy==2.4.4`, or `--with numpy==2.4.4`"
        )
    if yes and discard:
        raise UsageError("--yes and --discard are given", "give one of them")
    workspace = Workspace.open(venv, profile)
    request = TryRequest(
        target=workspace.folder,
        command=tuple(words) or ("uv", "pip", "install", *specs),
        profile=workspace.profile,
        test=tuple(from_text(test)),
        timeout=timeout,
    )
    done = trying(workspace, request, TryOptions(yes=yes, discard=discard), Terminal())
    return finish(done, output_format, json=json)
