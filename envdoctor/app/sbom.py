"""What is really on disk in a venv, as a bill of materials."""

import shlex

from envdoctor.app.result import Dialog, Result
from envdoctor.doctor.examine import written_down
from envdoctor.doctor.workspace import Workspace
from envdoctor.errors import ProbeError
from envdoctor.model.fingerprint import MissingFactError
from envdoctor.model.frozen import frozen, replace
from envdoctor.stack.examination import deep_options
from envdoctor.stack.inventory import Inventory, inventory


@frozen
class MaterialsResult:
    """An inventory, and how much of it is written."""

    inventory: Inventory
    every_file: bool
    """List each file, not only RECORDs and what is not as they say."""


def sbom(workspace: Workspace, dialog: Dialog, *, every_file: bool) -> Result:
    """Hash every file of the target venv and return its inventory. Raises TargetError, ProbeError."""
    with dialog.listening() as listen:
        reading = workspace.reading(replace(deep_options(listen), contents=True))
        try:
            found = inventory(reading, written_down(reading))
        except MissingFactError as error:
            raise ProbeError(
                f"the stack of {reading.target.prefix} could not be determined: {error}",
                f"`envdoctor check {shlex.quote(str(reading.target.prefix))}` says what is wrong with it",
            ) from error
    return Result(command="sbom", data=MaterialsResult(inventory=found, every_file=every_file))
