"""`envdoctor gate write`: the launch gate as one file."""

from typing import Annotated

import typer

from envdoctor.app import gate as app
from envdoctor.cli.dialog import Terminal
from envdoctor.cli.options import FormatOption, JsonOption
from envdoctor.cli.output import finish
from envdoctor.facts.host import Host


def write(
    path: Annotated[str, typer.Argument(metavar="PATH", help="The Python file to write, such as envdoctor_gate.py.")],
    force: Annotated[bool, typer.Option("--force", help="Replace a file of that name.")] = False,
    output_format: FormatOption = "text",
    json: JsonOption = False,
) -> int:
    """Write the launch gate as one Python file without dependencies, for a train script to import."""
    return finish(app.write(Host.current(), path, Terminal(), force=force), output_format, json=json)
