"""`envdoctor sbom`: what is really on disk, as a CycloneDX document."""

from typing import Annotated

import typer

from envdoctor.app import sbom as app
from envdoctor.cli.dialog import Terminal
from envdoctor.cli.options import OutputOption, VenvArgument, VenvOption
from envdoctor.cli.output import finish
from envdoctor.cli.values import one_venv
from envdoctor.doctor.workspace import Workspace
from envdoctor.report.commands.sbom import refuse_without_library


def sbom(
    venv: VenvArgument = "",
    venv_option: VenvOption = "",
    every_file: Annotated[
        bool, typer.Option("--files", help="List every file with its hash, not only each RECORD and what differs.")
    ] = False,
    output: OutputOption = "",
) -> int:
    """Write a CycloneDX SBOM of what is really on disk: every file is hashed, nothing of the venv is run.

    File conflicts, files that are not as recorded and files that belong to no distribution are properties of it.
    """
    refuse_without_library()
    done = app.sbom(Workspace.open(one_venv(venv, venv_option)), Terminal(), every_file=every_file)
    return finish(done, output=output)
