"""Questions about a venv: where something comes from, and what a change would do."""

from collections.abc import Sequence

from envdoctor.app.result import Dialog, Result
from envdoctor.doctor.workspace import Workspace
from envdoctor.exitcodes import ExitCode
from envdoctor.explore.addition import Install, addition
from envdoctor.explore.environment import explore
from envdoctor.explore.removal import removal
from envdoctor.explore.why import why as answer_to
from envdoctor.model.impact import Impact


def why(workspace: Workspace, name: str) -> Result:
    """Say where a library, a module, a path or a distribution comes from. Raises UsageError."""
    return Result(command="why", data=answer_to(explore(workspace.target, workspace.host), name))


def impact_of_removal(workspace: Workspace, distributions: Sequence[str], dialog: Dialog) -> Result:
    """Say what removing distributions would do, from files alone. Raises UsageError."""
    with dialog.waiting(f"looking at what {', '.join(distributions)} holds up"):
        return _impact(removal(explore(workspace.target, workspace.host), distributions))


def impact_of_install(workspace: Workspace, wanted: Install, dialog: Dialog) -> Result:
    """Say what an install would do, by doing it on a scratch copy. Raises UsageError."""
    return _impact(addition(workspace.target, workspace.host, wanted, dialog.stage))


def _impact(data: Impact) -> Result:
    return Result(command="impact", data=data, exit_code=ExitCode.FINDINGS if data.harmful else ExitCode.OK)
