"""`envdoctor gate add`: the launch gate in the lock of a profile."""

from envdoctor.app import gate as app
from envdoctor.cli.options import FormatOption, JsonOption, ProfileOption
from envdoctor.cli.output import finish
from envdoctor.doctor.workspace import Workspace


def add(profile: ProfileOption = "", output_format: FormatOption = "text", json: JsonOption = False) -> int:
    """Add the launch gate to the lock of a profile, and its wheel to the folder beside the lock.

    The next restore installs it, offline as well; checks then expect it.
    """
    return finish(app.add(Workspace.open(profile=profile)), output_format, json=json)
