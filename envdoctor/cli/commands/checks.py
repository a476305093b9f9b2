"""`envdoctor checks`: every check, one line each."""

from envdoctor.app import checks as app
from envdoctor.cli.options import FormatOption, JsonOption
from envdoctor.cli.output import finish


def checks(output_format: FormatOption = "text", json: JsonOption = False) -> int:
    """List every check: code, name, area, what it finds."""
    return finish(app.checks(), output_format, json=json)
