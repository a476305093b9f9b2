"""The tasks of `fleet restore`, `repair`, `rollback` or `cache push` on a node: what `rollout/visit.py` starts there.

It prints a line of JSON for each task as soon as that is done: "code", "status", "digest", "text", "problem", "hint",
"notes", "errors", "died", and of a plan "venv", "place", "seen_from". Nothing is asked: what changes something has the
digest of a plan that was shown.
"""

import hashlib
import json
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from types import FrameType
from typing import Any

from envdoctor.app.result import Result, ShowProgress
from envdoctor.cli.leaving import leaving
from envdoctor.doctor.workspace import Workspace
from envdoctor.errors import CacheError, EnvdoctorError, UsageError, internal_error
from envdoctor.exitcodes import ExitCode
from envdoctor.facts.stops import STOPS, raise_again
from envdoctor.model.codec import encode
from envdoctor.model.events import Listener, silent
from envdoctor.model.frozen import replace
from envdoctor.swap import journal
from envdoctor.swap.journal import JournalEntry
from envdoctor.swap.same_venv import made, place_of
from envdoctor.swap.store import BackupStore, refuse_held
from envdoctor.swap.transaction import recover_first

_LONGEST = 100_000
_DIGITS = 20
_MOST_ERRORS = 100
_ROLLBACK = "to go back: envdoctor rollback"
"""How a line begins that names a command which is not on this node."""
_before: list[frozenset[str]] = []
"""The files that the errors of the check before a repair are about."""
_PENDING = "+"
"""In a digest, before what tells the interrupted command that is put right before the plan."""


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
        """Nobody listens."""
        del plain
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
    _answer_stops_once()
    for task in json.loads(sys.argv[1]):
        said = _done(task)
        sys.stdout.write(json.dumps(said) + "\n")
        sys.stdout.flush()
        if said["code"] and (said.get("died") or not task.get("before")):
            break


def _answer_stops_once() -> None:
    """Raise KeyboardInterrupt for the first stop: a second one would break what tidies up after it.

    One that Python drops would be answered by nobody: it is raised again.
    """
    raise_again()
    again, came = sys.unraisablehook, list[int]()

    def interrupt(number: int, frame: FrameType | None) -> None:
        del frame
        if not came:
            came.append(number)
            raise KeyboardInterrupt

    def dropped(what: "sys.UnraisableHookArgs") -> None:
        if issubclass(what.exc_type, KeyboardInterrupt):
            came.clear()
        again(what)

    sys.unraisablehook = dropped
    for number in STOPS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, interrupt)


def _done(task: Mapping[str, Any]) -> dict[str, Any]:
    dialog = _Nobody()
    told: dict[str, Any]
    try:
        workspace = Workspace.open(task["venv"], task.get("profile", ""))
        told = _TASKS[task["do"]](workspace, task, dialog)
    except EnvdoctorError as error:
        told = {"code": int(error.exit_code), "problem": error.message, "hint": error.hint}
    except KeyboardInterrupt:
        told = {"code": int(ExitCode.INTERRUPTED), "problem": "it was interrupted", "died": True}
    except Exception as error:  # noqa: BLE001 - a fault of ours is that node's answer
        told = {"code": int(ExitCode.UNKNOWN), "problem": internal_error(error), "died": True}
    clean = {name: leaving(value) if isinstance(value, str) else value for name, value in told.items()}
    return clean | {"notes": [leaving(note)[:_LONGEST] for note in dialog.notes]}


def _told(result: Result) -> dict[str, Any]:
    from envdoctor.report.rendering import as_text
    from envdoctor.report.style import Style

    status = getattr(result.data, "status", "")
    text = as_text(result, Style(verbosity=-1 if result.command == "check" else 0))
    return {
        "code": int(result.exit_code),
        "status": status if isinstance(status, str) else "",
        "digest": str(getattr(result.data, "digest", "")),
        "problem": str(getattr(result.data, "refused", "")),
        "text": "".join(line for line in text.splitlines(keepends=True) if not line.startswith(_ROLLBACK))[:_LONGEST],
    }


def _changed(
    workspace: Workspace, task: Mapping[str, Any], run: Callable[[str], Result]
) -> tuple[dict[str, Any], Result]:
    """Plan, or carry a plan out: what an interrupted command left is part of a plan, and is put right before it.

    Where that was half-way through its swap, the plan after it is another one than was shown, and is not carried out.
    """
    store = BackupStore.of(workspace.folder)
    pending = journal.read(store)
    left = _digest_of(pending)
    shown = str(task.get("plan", ""))
    plan, _, _ = shown.partition(_PENDING)
    put_right = bool(shown and left and shown.endswith(left))
    if put_right:
        recover_first(store, silent)

    def truly(problem: str) -> str:
        changed = f"nothing was changed but that an interrupted {pending} was put right"
        return problem.replace("nothing was changed", changed, 1) if put_right else problem

    try:
        result = run(plan)
    except EnvdoctorError as error:
        if left:
            became = "put right" if put_right else "left"
            error.message = f"{truly(error.message)}; an interrupted {pending} was {became} there"
        raise
    told = _told(result) | (encode(place_of(store, workspace.host)) if not shown else {})
    if shown:
        told["venv"] = made(store.target)
    told["problem"] = truly(told["problem"])
    if left and not shown and not told["code"]:
        told |= {"status": "planned", "text": f"{_first(pending)}\n{told['text']}", "digest": told["digest"] + left}
    return told, result


def _digest_of(pending: JournalEntry | None) -> str:
    return f"{_PENDING}{hashlib.sha256(repr(pending).encode()).hexdigest()[:_DIGITS]}" if pending else ""


def _first(pending: JournalEntry | None) -> str:
    return f"first: what an interrupted {pending} left is put right\n"


def _restore(workspace: Workspace, task: Mapping[str, Any], dialog: _Nobody) -> dict[str, Any]:
    from envdoctor.app import restore as app

    wishes = app.RestoreOptions(
        dry_run="plan" not in task,
        offline=task.get("offline", False),
        wheelhouses=tuple(task.get("wheelhouses", ())),
    )
    told, result = _changed(workspace, task, lambda plan: app.restore(workspace, replace(wishes, plan=plan), dialog))
    planned = result.data.plan
    missing = [f"{one.name} {one.version} was not found: {one.reason}; {one.hint}" for one in planned.unavailable]
    if lacking := planned.lacking:
        missing.append(f"too little room on the file system of {lacking.where}")
    if told["code"] and missing:
        return told | {"problem": "\n".join(missing)}
    if told["problem"]:
        # Another node that shares the venv may have restored it meanwhile. Without a plan and an answer, a restore
        # changes nothing: it ends where the stack is in place, or asks.
        with suppress(UsageError):
            return _told(app.restore(workspace, replace(wishes, plan=""), dialog))
    return told


def _repair(workspace: Workspace, task: Mapping[str, Any], dialog: _Nobody) -> dict[str, Any]:
    from envdoctor.app import repair as app

    wishes = app.RepairOptions(offline=task.get("offline", False), dry_run="plan" not in task)
    told, result = _changed(workspace, task, lambda plan: app.repair(workspace, replace(wishes, plan=plan), dialog))
    if told["status"] != "not repaired":
        return told
    if "plan" in task:  # another node that shares the venv has repaired it; what is left is the next check's to say
        return told | {"code": 0}
    left = ", ".join(f"{finding.code} {finding.subject}" for finding in result.data.prepared.before)
    return told | {"problem": f"no file is damaged, and no reinstall is for {left}"}


def _rollback(workspace: Workspace, task: Mapping[str, Any], dialog: _Nobody) -> dict[str, Any]:
    from envdoctor.app import generations as app

    store = BackupStore.of(workspace.folder)
    if made(store.target) == task["before"]:  # or another node that shares the venv has gone back meanwhile
        return _as_before(workspace, task, dialog, store)
    number = next((one for one in store.numbers() if made(store.generation(one)) == task["before"]), None)
    if number is None:
        raise _not_there(store, task["change"])

    def run(plan: str) -> Result:
        return app.rollback(workspace, number, app.RollbackOptions(dry_run="plan" not in task, plan=plan), dialog)

    try:
        told = _changed(workspace, task, run)[0]
        failed = bool(told["code"])
    except EnvdoctorError:
        if made(store.target) != task["before"]:
            raise
        failed = True
    if failed and "plan" in task and made(store.target) == task["before"]:  # it was put right, and is that now
        return _as_before(workspace, task, dialog, store)
    return told


def _as_before(workspace: Workspace, task: Mapping[str, Any], dialog: _Nobody, store: BackupStore) -> dict[str, Any]:
    """Answer for a venv that is the one of before, as soon as no swap is pending in it. It is checked.

    One that was stopped inside its swap has the pyvenv.cfg of before, and may have nothing else.
    """
    refuse_held(store)
    pending = journal.read(store)
    plan, left = task.get("plan"), ""
    if pending is not None and pending.phase != "building":
        left = _digest_of(pending)
        if plan is None:
            place: dict[str, Any] = encode(place_of(store, workspace.host))
            return {"code": 0, "status": "planned", "text": _first(pending), "digest": left, **place}
        if plan != left:
            raise _not_there(store, task["change"])
        recover_first(store, silent)
        if made(store.target) != task["before"]:
            raise _not_there(store, task["change"])
    text = f"it has the venv that was there before {task['change']}\n"
    told = {"code": 0, "status": "as before", "text": text, **encode(place_of(store, workspace.host))}
    if plan is None:  # else the check is a task of its own
        found = _check(workspace, {}, dialog)
        (last,) = found["text"].strip().splitlines()[-1:] or [""]
        told |= {"errors": found["errors"], "problem": (found["problem"] or last) if found["code"] else ""}
    return told


def _not_there(store: BackupStore, change: str) -> UsageError:
    if pending := journal.read(store):
        return UsageError(
            f"an interrupted {pending} is in the middle of its swap",
            "`fleet restore` with `--resume`, or `envdoctor history` on the node: it has to be put right first",
        )
    return UsageError(
        f"neither {store.target} nor a backup of it is the venv that was there before {change}",
        "`envdoctor history` on the node lists what is kept there",
    )


def _check(workspace: Workspace, task: Mapping[str, Any], dialog: _Nobody) -> dict[str, Any]:
    from envdoctor.app import check as app

    result = app.check(workspace, app.CheckOptions(), dialog)
    found = [finding for finding in result.data.verdict.findings if finding.severity == "error"]
    errors = [leaving(f"{finding.code} {finding.subject}") for finding in found[:_MOST_ERRORS]]
    files = frozenset[str]().union(*(finding.files for finding in found))
    new = files.difference(*_before)
    if task.get("before"):
        _before[:] = [files]
    return _told(result) | {"errors": errors, "new_files": len(new)}


def _cache(workspace: Workspace, task: Mapping[str, Any], dialog: _Nobody) -> dict[str, Any]:
    from envdoctor.app import cache_restore as app
    from envdoctor.cache.vouched import Vouching

    wishes = app.CacheRestoreOptions(vouching=Vouching(sha256=task["sha256"]), dry_run=True)
    try:
        told = _told(app.restore(workspace, task["archive"], wishes, dialog))
    except CacheError as error:
        hint = error.hint.replace(", or add `--force` to merge entries that will not hit here", "")
        if "--include" in hint:
            hint = "`envdoctor cache restore` on the node has `--include` for them"
        raise CacheError(error.message, hint) from error
    seen = json.dumps([task["sha256"], told["text"], dialog.notes])
    digest = hashlib.sha256(seen.encode("utf-8", "surrogateescape")).hexdigest()[: 2 * _DIGITS]
    if "plan" not in task:
        return told | {"digest": digest}
    if task["plan"] != digest:
        problem = f"nothing was changed: the plan is not the one that was shown (digest {task['plan']}, now {digest})"
        return told | {"code": int(ExitCode.RESTORE_FAILED), "problem": problem}
    dialog.notes.clear()  # they come again
    return _told(app.restore(workspace, task["archive"], replace(wishes, dry_run=False), dialog))


def _cache_status(workspace: Workspace, task: Mapping[str, Any], dialog: _Nobody) -> dict[str, Any]:
    from envdoctor.app import caches as app

    del task
    return _told(app.status(workspace, dialog))


_TASKS: Mapping[str, Callable[[Workspace, Mapping[str, Any], _Nobody], dict[str, Any]]] = {
    "restore": _restore,
    "repair": _repair,
    "rollback": _rollback,
    "check": _check,
    "cache": _cache,
    "cache status": _cache_status,
}
