"""A step of a plan that was shown: agreed to as long as it does nothing else than what was shown."""

from contextlib import AbstractContextManager

from envdoctor.app.repair import RepairResult
from envdoctor.app.restore import RestoreResult
from envdoctor.app.result import Dialog, Result, ShowProgress
from envdoctor.errors import RestoreError
from envdoctor.model.events import Listener

_NAMED = 3


class AsShown:
    """The dialog of one step: its question is answered by the plan that somebody agreed to before."""

    def __init__(self, dialog: Dialog, shown: Result) -> None:
        """Keep whom to tell, and the plan of the restore or repair as it was shown."""
        self._dialog = dialog
        self._shown = self._now = shown

    def show(self, result: Result) -> None:
        """Show the plan as it is now."""
        self._now = result
        self._dialog.show(result)

    def agreed(self, question: str) -> bool:
        """Agree; raise RestoreError where the plan does what was not shown."""
        del question
        more = sorted(_deeds(self._now) - _deeds(self._shown))
        if not more:
            return True
        others = f" and {len(more) - _NAMED} more" if len(more) > _NAMED else ""
        raise RestoreError(
            f"it would do now what was not shown: {', '.join(more[:_NAMED])}{others}",
            "run `envdoctor check --fix` again: it plans for what is there now",
        )

    def needs_answer(self, hint: str) -> None:
        """Nobody is asked."""

    def note(self, text: str) -> None:
        """Pass it on."""
        self._dialog.note(text)

    def listening(self, *, plain: bool = False) -> AbstractContextManager[Listener]:
        """Pass it on."""
        return self._dialog.listening(plain=plain)

    def waiting(self, text: str) -> AbstractContextManager[None]:
        """Pass it on."""
        return self._dialog.waiting(text)

    def stage(self, text: str) -> AbstractContextManager[None]:
        """Pass it on."""
        return self._dialog.stage(text)

    def hashing(self) -> AbstractContextManager[ShowProgress | None]:
        """Pass it on."""
        return self._dialog.hashing()


def _deeds(result: Result) -> frozenset[str]:
    """Return "install NAME VERSION" and "remove NAME" for what a plan does. A restore installs all that is locked."""
    data = result.data
    if isinstance(data, RepairResult):
        changes = data.prepared.plan.changes
        installed = {f"install {item.name} {item.version}" for item in changes.reinstalls}
        return frozenset(installed | {f"remove {item.name}" for item in changes.removals})
    assert isinstance(data, RestoreResult)  # noqa: S101 - `check --fix` plans with no other command
    installed = {f"install {item.name} {item.version}" for item in data.plan.packages}
    return frozenset(installed | {f"remove {item.name}" for item in data.plan.changes if not item.after})
