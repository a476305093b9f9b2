"""The tasks of `fleet restore`, `repair` or `cache push` on a node: what `rollout/visit.py` starts there.

It prints a list as JSON: of each task "code", "status", "digest", "text", "problem", "hint", "notes". Nothing is asked:
what changes something has the digest of a plan that was shown, or the sha256 of an archive.
"""

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from envdoctor.app.result import Result, ShowProgress
from envdoctor.cli.leaving import leaving
from envdoctor.cli.signals import stoppable
from envdoctor.doctor.workspace import Workspace
from envdoctor.errors import EnvdoctorError, UsageError, internal_error
from envdoctor.exitcodes import ExitCode
from envdoctor.facts.stops import raise_again
from envdoctor.model.events import Listener, silent

_LONGEST = 100_000


class _Nobody:
    """The dialog of a node: what it would say is kept, and nobody answers."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def show(self, result: Result) -> None:
        """Nobody looks: the plan has been shown."""

    def agreed(self, question: str) -> bool:
        """Raise UsageError: a plan that was shown leaves no question."""
        raise UsageError(f"a question that no plan answers: {question}", "plan again")

    def needs_answer(self, hint: str) -> None:
        """Nobody is asked."""

    def note(self, text: str) -> None:
        """Keep it for the answer."""
        self.notes.append(text)

    @contextmanager
    def listening(self, *, plain: bool = False) -> Iterator[Listener]:
        """SIGTERM is an interrupt, after which the old venv is as it was."""
        del plain
        with stoppable():
            yield silent

    def waiting(self, text: str) -> AbstractContextManager[None]:
        """Say nothing."""
        del text
        return nullcontext()

    stage = waiting

    def hashing(self) -> AbstractContextManager[ShowProgress | None]:
        """Say nothing."""
        return nullcontext(None)


def main() -> None:
    """Do the tasks of sys.argv[1], a list as JSON, up to the first that does not end well; print what came of each."""
    raise_again()  # a stop that Python drops would be answered by nobody
    said: list[dict[str, Any]] = []
    for task in json.loads(sys.argv[1]):
        said.append(_done(task))
        if said[-1]["code"]:
            break
    sys.stdout.write(json.dumps(said))
    sys.stdout.flush()


def _done(task: Mapping[str, Any]) -> dict[str, Any]:
    dialog = _Nobody()
    told: dict[str, Any]
    try:
        with stoppable():
            workspace = Workspace.open(task["venv"], task.get("profile", ""))
            told = _told(_TASKS[task["do"]](workspace, task, dialog))
    except EnvdoctorError as error:
        told = {"code": int(error.exit_code), "problem": error.message, "hint": error.hint}
    except KeyboardInterrupt:
        told = {"code": int(ExitCode.INTERRUPTED), "problem": "it was interrupted, and the old venv is as it was"}
    except Exception as error:  # noqa: BLE001 - a fault of ours is that node's answer
        told = {"code": int(ExitCode.UNKNOWN), "problem": internal_error(error)}
    clean = {name: leaving(value) if isinstance(value, str) else value for name, value in told.items()}
    return clean | {"notes": [leaving(note)[:_LONGEST] for note in dialog.notes]}


def _told(result: Result) -> dict[str, Any]:
    from envdoctor.report.rendering import as_text
    from envdoctor.report.style import Style

    return {
        "code": int(result.exit_code),
        "status": str(getattr(result.data, "status", ""))
        if isinstance(getattr(result.data, "status", ""), str)
        else "",
        "digest": str(getattr(result.data, "digest", "")),
        "problem": str(getattr(result.data, "refused", "")),
        "text": as_text(result, Style(verbosity=-1 if result.command == "check" else 0))[:_LONGEST],
    }


def _restore(workspace: Workspace, task: Mapping[str, Any], dialog: _Nobody) -> Result:
    from envdoctor.app import restore as app

    plan = task.get("plan", "")
    wishes = app.RestoreOptions(
        python=task.get("base", ""),
        dry_run=not plan,
        offline=task.get("offline", False),
        wheelhouses=tuple(task.get("wheelhouses", ())),
        plan=plan,
    )
    return app.restore(workspace, wishes, dialog)


def _repair(workspace: Workspace, task: Mapping[str, Any], dialog: _Nobody) -> Result:
    from envdoctor.app import repair as app

    plan = task.get("plan", "")
    wishes = app.RepairOptions(offline=task.get("offline", False), dry_run=not plan, plan=plan)
    return app.repair(workspace, wishes, dialog)


def _check(workspace: Workspace, task: Mapping[str, Any], dialog: _Nobody) -> Result:
    from envdoctor.app import check as app

    del task
    return app.check(workspace, app.CheckOptions(), dialog)


def _cache(workspace: Workspace, task: Mapping[str, Any], dialog: _Nobody) -> Result:
    from envdoctor.app import cache_restore as app
    from envdoctor.cache.vouched import Vouching

    wishes = app.CacheRestoreOptions(vouching=Vouching(sha256=task["sha256"]), dry_run=not task.get("plan", ""))
    return app.restore(workspace, task["archive"], wishes, dialog)


def _cache_status(workspace: Workspace, task: Mapping[str, Any], dialog: _Nobody) -> Result:
    from envdoctor.app import caches as app

    del task
    return app.status(workspace, dialog)


_TASKS: Mapping[str, Callable[[Workspace, Mapping[str, Any], _Nobody], Result]] = {
    "restore": _restore,
    "repair": _repair,
    "check": _check,
    "cache": _cache,
    "cache status": _cache_status,
}
