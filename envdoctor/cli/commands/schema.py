"""`envdoctor schema`: the JSON Schema of a document that another command writes."""

from typing import Annotated

import typer

from envdoctor.cli import completion
from envdoctor.cli.terminal import write_result
from envdoctor.errors import UsageError
from envdoctor.exitcodes import ExitCode
from envdoctor.report import schemas


def schema(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            autocompletion=completion.documents,
            help="A document: check, restore, cache-status. Default: list them.",
        ),
    ] = "",
) -> int:
    """Print the JSON Schema of a command's `--json` document; without a name, list the documents.

    Within a version keys may be added and none is removed; readers ignore keys they do not know.
    """
    if not name:
        write_result("\n".join(schemas.names()) + "\n")
        return ExitCode.OK
    try:
        write_result(schemas.read(name.replace(" ", "-")))
    except KeyError:
        raise UsageError(f"there is no document `{name}`", f"one of: {', '.join(schemas.names())}") from None
    return ExitCode.OK
