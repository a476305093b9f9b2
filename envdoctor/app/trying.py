"""A change tried on a copy of the venv, and kept or thrown away."""

from pathlib import Path
from typing import Literal

from envdoctor.app.interrupts import accounted
from envdoctor.app.result import Dialog, Result
from envdoctor.app.unasked import refuse_found_above
from envdoctor.doctor.workspace import Workspace
from envdoctor.exitcodes import ExitCode
from envdoctor.model.frozen import frozen, replace
from envdoctor.model.plan import VenvUser
from envdoctor.stack.replaceable import refuse_no_venv
from envdoctor.swap.in_use import users
from envdoctor.swap.shown import ShownVenv
from envdoctor.swap.store import BackupStore, remove_tree
from envdoctor.swap.transaction import Copying, exchange
from envdoctor.trial.attempt import Tried, TryRequest, attempt, finish, refuse_elsewhere

Status = Literal["tried", "kept", "thrown away", "nothing changed"]


@frozen
class TryResult:
    """What a change would do, and what became of it."""

    status: Status
    venv: str
    tried: Tried
    kept: str = ""
    """Where the venv before it is."""
    users: tuple[VenvUser, ...] = ()


@frozen
class TryOptions:
    """What is done with the copy."""

    yes: bool = False
    """Keep it without a question, if nothing would break."""
    discard: bool = False
    """Throw it away without a question."""


class _ThrownAwayError(Exception):
    """The copy is not kept."""


def trying(workspace: Workspace, request: TryRequest, wishes: TryOptions, dialog: Dialog) -> Result:
    """Try a change on a linked copy of the venv, show what it does, and swap it in or not.

    Raises UsageError, RestoreError, Interrupted; the venv is as it was then.
    """
    if wishes.yes:
        refuse_found_above(workspace)
    host, store = workspace.host, BackupStore.of(request.target)
    refuse_no_venv(store.target)
    request = replace(request, target=store.target, names=(str(request.target),))
    refuse_elsewhere(request, host)
    if not (wishes.yes or wishes.discard):
        dialog.needs_answer("add `--yes` to keep it if nothing would break, or `--discard` to see what it would do")
    outcome: list[TryResult] = []
    shown = ShownVenv.of(store)

    def make(copying: Copying) -> None:
        try:
            scratch, tried = attempt(request, host, copying.folder, dialog.stage, copying.made, dialog.note)
            result = TryResult(
                status="tried", venv=str(store.target), tried=tried, users=users(store.target, host.proc)
            )
            outcome.append(result)
            if not _wanted(result, wishes, dialog):
                raise _ThrownAwayError
            copying.refuse_changes()
            scratch.refuse_changes()
            finish(request, copying.folder)
        finally:
            remove_tree(Path(f"{copying.folder}-caches"))

    from envdoctor.stack.examination import verdict_on  # noqa: PLC0415 - every check comes with it

    with accounted(store, "the copy with the change"), dialog.listening(plain=True) as listen:
        try:
            done = exchange(
                store,
                "try",
                "",
                make,
                listen,
                host=host,
                shown=shown,
                verdict=lambda: verdict_on(store.target, host),
            )
        except _ThrownAwayError:
            (result,) = outcome
            status: Status = "thrown away" if result.tried.changed else "nothing changed"
            return _result(replace(result, status=status))
    return _result(replace(outcome[0], status="kept", kept=str(done.kept or "")))


def _result(data: TryResult) -> Result:
    harmed = data.tried.harmful and data.status != "kept"
    return Result(command="try result", data=data, exit_code=ExitCode.FINDINGS if harmed else ExitCode.OK)


def _wanted(result: TryResult, wishes: TryOptions, dialog: Dialog) -> bool:
    """Tell whether the copy is to be kept."""
    if not result.tried.changed or wishes.discard:
        return False
    if wishes.yes and result.tried.harmful:
        return False
    dialog.show(Result(command="try result", data=result))
    if wishes.yes:
        return True
    doubt = ", although something would break" if result.tried.harmful else ""
    return dialog.agreed(f"Keep it, as {result.venv}{doubt}?")
