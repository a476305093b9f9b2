"""`envdoctor profiles`: the known-good stacks that can be found from here."""

from pathlib import Path

from envdoctor.app.result import Result
from envdoctor.cli.options import FormatOption, JsonOption
from envdoctor.cli.output import finish
from envdoctor.documents import profile_store


def profiles(output_format: FormatOption = "text", json: JsonOption = False) -> int:
    """List the profiles that can be named here, with what each is for and where it was found."""
    start = Path.cwd()
    found = [profile_store.find(name, start) for name in profile_store.names(start)]
    return finish(Result(command="profiles", data=found), output_format, json=json)
