"""`envdoctor profiles`: the known-good stacks that can be found from here."""

from envdoctor.app import profiles as app
from envdoctor.cli.options import FormatOption, JsonOption
from envdoctor.cli.output import finish
from envdoctor.facts.host import Host


def profiles(output_format: FormatOption = "text", json: JsonOption = False) -> int:
    """List the profiles that can be named here, each with its purpose and where it was found."""
    return finish(app.profiles(Host.current()), output_format, json=json)
