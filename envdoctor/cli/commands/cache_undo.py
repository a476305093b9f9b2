"""`envdoctor cache undo`: put back what the last clean-up took."""

from typing import Annotated

import typer

from envdoctor.app import cache_changes as app
from envdoctor.cli.options import FormatOption, JsonOption, ProfileOption
from envdoctor.cli.output import finish
from envdoctor.doctor.workspace import Workspace


def undo(
    stamp: Annotated[
        str, typer.Argument(metavar="STAMP", help="Which clean-up, as `cache gc --purge --dry-run` lists them.")
    ] = "",
    profile: ProfileOption = "",
    output_format: FormatOption = "text",
    json: JsonOption = False,
) -> int:
    """Put back what the last `cache gc` removed, or clean-up STAMP; entries compiled again since then stay."""
    return finish(app.undo(Workspace.open(profile=profile), stamp), output_format, json=json)
