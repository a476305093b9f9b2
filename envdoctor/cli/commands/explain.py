"""`envdoctor explain`: what a check finds, why it matters, an example, the fix."""

from typing import Annotated

import typer

from envdoctor.cli.rules import find_rule
from envdoctor.cli.terminal import write_result
from envdoctor.report.rule_pages import as_terminal_text


def explain(
    code: Annotated[
        str, typer.Argument(metavar="CODE", help="A check's code or name, as `envdoctor checks` lists them.")
    ],
) -> int:
    """Say what a check finds, why it matters, with an example and the fix."""
    write_result(as_terminal_text(find_rule(code)))
    return 0
