"""`envdoctor history`: the venv in place and the ones that were kept, and the room they take."""

from envdoctor.app import generations as app
from envdoctor.cli.options import DrawnFormatOption, JsonOption, OutputOption, VenvArgument, VenvOption
from envdoctor.cli.output import finish
from envdoctor.cli.values import one_venv
from envdoctor.doctor.workspace import Workspace


def history(
    venv: VenvArgument = "",
    venv_option: VenvOption = "",
    output_format: DrawnFormatOption = "text",
    json: JsonOption = False,
    output: OutputOption = "",
) -> int:
    """List the backups of a venv, newest first, and how much space removing each would free.

    Exit codes: 0 listed, 2 bad input, 4 the journal of an interrupted command cannot be read.
    """
    return finish(app.history(Workspace.open(one_venv(venv, venv_option))), output_format, json=json, output=output)
