"""Which change broke it, between two ends."""

import os
import shlex
from pathlib import Path
from typing import Literal

from envdoctor.app.interrupts import accounted
from envdoctor.app.result import Dialog, Result
from envdoctor.app.unasked import refuse_found_above
from envdoctor.doctor.workspace import Workspace
from envdoctor.documents import profile_store
from envdoctor.errors import Interrupted, ProfileError, UsageError
from envdoctor.exitcodes import ExitCode
from envdoctor.facts.target import resolve
from envdoctor.model.frozen import frozen, replace
from envdoctor.model.plan import VenvUser
from envdoctor.stack.named import NamedStack, named_stack
from envdoctor.standards.measured import compiled
from envdoctor.standards.redaction import redacted_words
from envdoctor.swap.in_use import users
from envdoctor.swap.shown import ShownVenv
from envdoctor.swap.store import BackupStore
from envdoctor.swap.transaction import system_errors
from envdoctor.trial.bisection import Beginning, Bisected, Bisection, BisectRequest
from envdoctor.trial.changes import StackChange
from envdoctor.trial.command import Criterion
from envdoctor.trial.journal import Asked, Caches, CopyVerdict, TrialJournal
from envdoctor.trial.launch import as_typed
from envdoctor.trial.undo import UndoCommands, swap_in, undo_commands
from envdoctor.trial.work_folder import place_of, work_folder
from envdoctor.wheels import printed, uv


@frozen
class BisectOptions:
    """How it is to be done."""

    criterion: Criterion = Criterion()
    caches: Caches = "warm"
    offline: bool = False
    sources: bool = False
    trust_variables: bool = False


@frozen
class BisectResult:
    """What was found, and how to undo it."""

    found: Bisected
    undo: UndoCommands
    venv: str
    """The user's venv, whose store holds the journal."""


@frozen
class BisectUndo:
    """A venv without the causes, before or after it was swapped in."""

    venv: str
    undone: tuple[StackChange, ...]
    keep: str
    """Where the venv as it is now goes."""
    users: tuple[VenvUser, ...]
    """Processes that run from it."""
    status: Literal["planned", "swapped in"] = "planned"
    kept: str = ""


@frozen
class BisectLog:
    """What the journal of the last bisection of a venv holds."""

    venv: str
    asked: Asked
    verdicts: tuple[CopyVerdict, ...]
    output: str
    """The file with the output of every run."""


def bisect(
    workspace: Workspace,
    good: str,
    bad: str,
    command: tuple[str, ...],
    wishes: BisectOptions,
    dialog: Dialog,
    beginning: Beginning = "any",
) -> Result:
    """Find the changes that make the command fail. Raises UsageError, RestoreError."""
    host = workspace.host
    _refuse_senseless(wishes)
    ends = (named_stack(good, host), named_stack(bad, host))
    if not wishes.trust_variables:
        for end in ends:
            _refuse_code_variables(end, workspace)
    home = _home(workspace, *ends)
    store = BackupStore.of(home)
    store.refuse_planted()
    request = BisectRequest(
        good=ends[0],
        bad=ends[1],
        command=command,
        criterion=wishes.criterion,
        caches=wishes.caches,
        offline=wishes.offline or uv.told_offline(host.environ),
        sources=wishes.sources,
    )
    with accounted(store, "something else") as account, system_errors():
        try:
            with work_folder(store) as work, dialog.listening() as listen:
                bisection = Bisection(request, work, host, listen)
                found = bisection.find(beginning)
        except KeyboardInterrupt as error:
            again = f"envdoctor bisect --resume --venv {shlex.quote(str(home))}"
            raise Interrupted(f"interrupted\n{account.state}; `{again}` goes on") from error
        undo = undo_commands(found, ends[1], bisection.mixture)
    known = printed.sources(host.environ, host.home, host.cwd, Path(bisection.mixture.bad.tree.root))
    undo = replace(undo, by_hand=tuple(printed.sourced(line, known) for line in undo.by_hand))
    found = replace(found, notes=(*found.notes, *filter(None, [printed.note(undo.by_hand, known)])))
    data = BisectResult(found=found, undo=undo, venv=str(home))
    return Result(command="bisect", data=data, exit_code=ExitCode.OK if found.verified else ExitCode.UNKNOWN)


def resume(workspace: Workspace, dialog: Dialog, *, trust_variables: bool) -> Result:
    """Go on with the bisection whose journal is in the store of the workspace's venv.

    Raises UsageError, also where an end is not as it was.
    """
    asked = _asked(_journal(workspace))
    workspace = _where_asked(workspace, asked)
    wishes = BisectOptions(
        criterion=asked.criterion,
        caches=asked.caches,
        offline=asked.offline,
        sources=asked.sources,
        trust_variables=trust_variables,
    )
    return bisect(workspace, asked.good, asked.bad, asked.command, wishes, dialog, "resumed")


def undo(workspace: Workspace, dialog: Dialog, *, yes: bool) -> Result:
    """Swap in the copy of the bad end without the causes. Raises UsageError, RestoreError, Interrupted.

    What the last bisection knows is not tested again; one that is not finished is refused.
    """
    if yes:
        refuse_found_above(workspace)
    asked, store = _asked(_journal(workspace)), BackupStore.of(workspace.folder)
    host = _where_asked(workspace, asked).host
    bad = named_stack(asked.bad, host)
    if bad.kind != "venv" or BackupStore.of(resolve(bad.path).prefix).target != store.target:
        raise UsageError(
            f"the last bisection's bad end, {asked.bad}, is not {store.target}, so there is nothing to undo in it",
            "name the venv that was bisected: `--venv PATH`",
        )
    request = BisectRequest(
        good=named_stack(asked.good, host),
        bad=bad,
        command=asked.command,
        criterion=asked.criterion,
        caches=asked.caches,
        offline=asked.offline,
        sources=asked.sources,
    )
    shown = ShownVenv.of(store)
    with accounted(store, "the copy without the causes") as account, system_errors(), work_folder(store) as work:
        with dialog.listening() as listen:
            bisection = Bisection(request, work, host, listen)
            found = bisection.find("known")
        if not found.verified:
            raise UsageError(
                "the copy without the causes could not be judged, so it is not swapped in",
                "`envdoctor bisect --log` shows the copies",
            )
        planned = BisectUndo(
            venv=str(store.target),
            undone=found.undone,
            keep=str(store.next_generation()),
            users=users(store.target, host.proc),
        )
        dialog.show(Result(command="bisect undo", data=planned))
        if not yes:
            shown = shown.with_entries(store, host)
        if not yes and not dialog.agreed(f"Swap it in at {store.target}?"):
            raise Interrupted(f"declined\n{account.state}")
        with dialog.listening() as listen:
            done = swap_in(bisection, store, host, listen, shown)
    return Result(command="bisect undo", data=replace(planned, status="swapped in", kept=str(done.kept or "")))


def log(workspace: Workspace) -> Result:
    """Show every copy and its verdict. Raises UsageError where there was no bisection."""
    journal = _journal(workspace)
    store = BackupStore.of(workspace.folder)
    data = BisectLog(
        venv=str(store.target),
        asked=_asked(journal),
        verdicts=tuple(journal.verdicts),
        output=str(place_of(store).log),
    )
    return Result(command="bisect log", data=data)


def _where_asked(workspace: Workspace, asked: Asked) -> Workspace:
    """Return the workspace of the folder that a bisection was asked in: its ends and its command start from there."""
    folder = Path(asked.folder or workspace.host.cwd)
    if not folder.is_dir():
        ends = as_typed((_from(folder, asked.good), _from(folder, asked.bad)))
        command = as_typed(redacted_words(asked.command))
        raise UsageError(
            f"the last bisection was started in {folder}, which is no longer there",
            f"start it over where its command finds its files: `envdoctor bisect {ends} -- {command}`",
        )
    there = Workspace(replace(workspace.host, cwd=folder), str(workspace.folder), workspace.profile)
    there.typed = workspace.typed
    return there


def _from(folder: Path, end: str) -> str:
    """Return an end that was named in a folder as it is named anywhere: a path absolute, a profile by its name."""
    path = os.path.normpath(folder / end)
    return path if os.path.lexists(path.rpartition("@")[0] or path) else end


def _asked(journal: TrialJournal) -> Asked:
    assert journal.asked is not None  # noqa: S101 - `_journal` refuses one without
    return journal.asked


def _journal(workspace: Workspace) -> TrialJournal:
    store = BackupStore.of(workspace.folder)
    journal = TrialJournal(place_of(store).folder)
    if not journal.read():
        raise UsageError(
            f"no bisection of {store.target} is known",
            "start one: `envdoctor bisect GOOD BAD -- CMD`; `--venv` names another venv",
        )
    return journal


def _home(workspace: Workspace, good: NamedStack, bad: NamedStack) -> Path:
    """Return the venv in whose store the work is done: the bad one, else the good one, else the target venv."""
    for end in (bad, good):
        if end.kind == "venv":
            return resolve(end.path).prefix
        if end.kind == "generation":
            return Path(end.venv)
    return workspace.folder


def _refuse_senseless(wishes: BisectOptions) -> None:
    wanted = wishes.criterion
    if wanted.runs < 1 or not 1 <= wanted.fails <= wanted.runs:
        raise UsageError(
            f"--fails {wanted.fails} of --runs {wanted.runs} runs cannot be", "give 1 <= K <= N: `--runs 10 --fails 3`"
        )
    if wanted.timeout <= 0:
        raise UsageError(f"--timeout {wanted.timeout:g} is no time", "give seconds: `--timeout 600`")
    if wanted.pattern:
        compiled(wanted.pattern)
    elif wanted.drop:
        raise UsageError("--drop and --rise need a number to compare", "say which: `--measure 'tok/s=([0-9.]+)'`")


def _refuse_code_variables(end: NamedStack, workspace: Workspace) -> None:
    if end.kind != "profile":
        return
    profile = profile_store.find(end.path, workspace.host.cwd)
    try:
        Workspace(workspace.host, profile=profile).refuse_code_variables()
    except ProfileError as error:
        raise ProfileError(error.message, error.hint.replace("`run` or `cache warm`", "the command")) from error
