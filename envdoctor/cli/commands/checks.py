"""`envdoctor checks`: every check, one line each."""

from envdoctor.app.result import Result
from envdoctor.cli.options import FormatOption, JsonOption
from envdoctor.cli.output import finish
from envdoctor.cli.rules import all_rules


def checks(output_format: FormatOption = "text", json: JsonOption = False) -> int:
    """List every check: code, name, area, what it finds."""
    return finish(Result(command="checks", data=all_rules()), output_format, json=json)
