"""`envdoctor cache status`: will the caches hit, and if not, because of what."""

from envdoctor.app import caches as app
from envdoctor.cli.dialog import Terminal
from envdoctor.cli.options import (
    JsonOption,
    LiveOption,
    OutputOption,
    ProfileOption,
    ReportFormatOption,
    VenvArgument,
    VenvOption,
)
from envdoctor.cli.output import finish
from envdoctor.cli.values import one_venv
from envdoctor.doctor.workspace import Workspace


def status(
    venv: VenvArgument = "",
    venv_option: VenvOption = "",
    profile: ProfileOption = "",
    live: LiveOption = False,
    output_format: ReportFormatOption = "text",
    json: JsonOption = False,
    output: OutputOption = "",
) -> int:
    """Say whether the compile caches of a venv will hit for its torch, Triton, GPU and configuration, and why not.

    Without `--live` nothing of the venv is run. Exit codes: 0 they will hit, 1 they will not or not all, 2 bad input,
    3 could not tell.
    """
    done = app.status(Workspace.open(one_venv(venv, venv_option), profile), Terminal(), live=live)
    return finish(done, output_format, json=json, output=output)
