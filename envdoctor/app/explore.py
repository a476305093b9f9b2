"""Questions about a venv: where something comes from, and what a change would do."""

from collections.abc import Sequence

from envdoctor.app.result import Dialog, Result
from envdoctor.doctor.workspace import Workspace
from envdoctor.exitcodes import ExitCode
from envdoctor.explore.addition import Install, addition
from envdoctor.explore.environment import explore
from envdoctor.explore.removal import removal
from envdoctor.explore.why import why as answer_to
from envdoctor.model.frozen import replace
from envdoctor.model.impact import Impact
from envdoctor.wheels import printed


def why(workspace: Workspace, name: str) -> Result:
    """Say where a library, a module, a path or a distribution comes from. Raises UsageError."""
    return Result(command="why", data=answer_to(explore(workspace.target, workspace.host), name))


def impact_of_removal(workspace: Workspace, distributions: Sequence[str], dialog: Dialog) -> Result:
    """Say what removing distributions would do, from files alone. Raises UsageError."""
    with dialog.waiting(f"looking at what {', '.join(distributions)} holds up"):
        return _impact(workspace, removal(explore(workspace.target, workspace.host), distributions))


def impact_of_install(workspace: Workspace, wanted: Install, dialog: Dialog) -> Result:
    """Say what an install would do, by doing it on a scratch copy. Raises UsageError."""
    with dialog.waiting(f"reading {workspace.target.prefix}"):
        before = explore(workspace.target, workspace.host)
    return _impact(workspace, addition(before, workspace.host, wanted, dialog.stage))


def _impact(workspace: Workspace, data: Impact) -> Result:
    if data.commands:
        host = workspace.host
        known = printed.sources(host.environ, host.home, host.cwd, workspace.target.prefix)
        notes = filter(None, [printed.note(data.commands, known)])
        commands = tuple(printed.sourced(command, known) for command in data.commands)
        data = replace(data, commands=commands, notes=(*data.notes, *notes))
    return Result(command="impact", data=data, exit_code=ExitCode.FINDINGS if data.harmful else ExitCode.OK)
