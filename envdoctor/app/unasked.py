"""What is changed without a question must be what the user had in mind."""

import shlex

from envdoctor.doctor.workspace import Workspace
from envdoctor.errors import UsageError


def refuse_found_above(workspace: Workspace, *, new: bool = False) -> None:
    """Raise UsageError where the target venv was only found in a folder above the current one.

    For commands that were told not to ask: with a question, the plan and the question name it. new: the command can
    also make a venv in the current folder.
    """
    if not workspace.found_above:
        return
    here = "; with `--venv .venv` for a new one here" if new else ""
    raise UsageError(
        f"{workspace.folder} was found above {workspace.host.cwd}, and is not changed without a question unless it is "
        "named",
        f"give the same command with `--venv {shlex.quote(str(workspace.folder))}`{here}",
    )
