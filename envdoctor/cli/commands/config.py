"""`envdoctor config`: what holds when an option is not given, and where it comes from."""

from envdoctor.app import config as app
from envdoctor.cli.options import FormatOption, JsonOption
from envdoctor.cli.output import finish
from envdoctor.facts.host import Host


def config(output_format: FormatOption = "text", json: JsonOption = False) -> int:
    """Show each setting's value and where it comes from: the environment, pyproject.toml, or the default.

    An option on the command line comes before all of them.
    """
    return finish(app.config(Host.current()), output_format, json=json)
