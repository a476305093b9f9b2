"""`check --fix`: one plan for every cause, one question, and each step on a copy that is swapped in."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from envdoctor.app import check as checking
from envdoctor.app import repair as repairing
from envdoctor.app import restore as restoring
from envdoctor.app.as_shown import AsShown
from envdoctor.app.check import Checked, CheckOptions
from envdoctor.app.interrupts import accounted
from envdoctor.app.result import Dialog, Result
from envdoctor.app.unasked import refuse_found_above
from envdoctor.doctor.workspace import Workspace
from envdoctor.errors import EnvdoctorError, Interrupted, RestoreError, UsageError
from envdoctor.exitcodes import ExitCode
from envdoctor.model.finding import SEVERITY_ORDER, Finding
from envdoctor.model.frozen import frozen, replace
from envdoctor.model.plan import VenvUser
from envdoctor.model.verdict import Verdict
from envdoctor.stack.examination import line, subjects
from envdoctor.stack.fix_commands import NotOnACopyError, on_a_copy
from envdoctor.stack.fix_copy import carry_out
from envdoctor.swap.in_use import users
from envdoctor.swap.shown import ShownVenv
from envdoctor.swap.store import BackupStore

StepKind = Literal["restore", "repair", "commands", "yours"]
FixStatus = Literal["nothing to fix", "planned", "fixed"]


@frozen
class FixOptions:
    """How a fix is to be done."""

    dry_run: bool = False
    yes: bool = False


@frozen
class FixStep:
    """One thing to do for one or several causes."""

    kind: StepKind
    """"commands": on a copy. "yours": not carried out, since it is about more than the venv."""
    commands: tuple[str, ...]
    causes: tuple[Finding, ...]
    why: str = ""
    """Why it is not carried out."""
    plan: Result | None = None
    """Of a restore or a repair, as those commands show it."""


@frozen
class Fix:
    """What a fix would do or did."""

    status: FixStatus
    target: str
    steps: tuple[FixStep, ...]
    before: Checked
    users: tuple[VenvUser, ...] = ()
    """Processes that use the venv while it is exchanged."""
    after: Checked | None = None
    undo: str = ""
    """The command that undoes everything."""


def fix(workspace: Workspace, wishes: CheckOptions, options: FixOptions, dialog: Dialog) -> Result:
    """Fix every cause at or above `fail_on`, in order. Raises UsageError; RestoreError for a step that fails."""
    if wishes.fingerprint or wishes.root:
        raise UsageError("--fix changes a venv of this machine", "leave out --fingerprint and --root")
    if options.yes and not options.dry_run:
        refuse_found_above(workspace)
    store = BackupStore.of(workspace.folder)
    shown = ShownVenv.of(store)
    checked = checking.check(workspace, wishes, dialog)
    before: Checked = checked.data
    target = str(workspace.target.prefix)
    steps = _planned(_steps(before.verdict, wishes, target), workspace, dialog)
    doable = [step for step in steps if step.kind != "yours"]
    using = users(workspace.folder, workspace.host.proc) if doable else ()
    planned = Fix(status="planned", target=target, steps=steps, before=before, users=using)
    if not doable:
        return Result(command="check fix", data=replace(planned, status="nothing to fix"), exit_code=checked.exit_code)
    refused = next((step.plan.exit_code for step in doable if step.plan and step.plan.exit_code), None)
    if options.dry_run or refused:
        return Result(command="check fix", data=planned, exit_code=refused or checked.exit_code)
    dialog.show(Result(command="check fix", data=planned))
    if not options.yes:
        shown = shown.with_entries(store, workspace.host)
        if not dialog.agreed(f"Fix {target}?"):
            raise Interrupted(f"declined\n{target} is as it was")
    return _carried_out(planned, workspace, wishes, dialog, store, shown)


def _steps(verdict: Verdict, wishes: CheckOptions, prefix: str) -> list[FixStep]:
    """Return the steps in the order of their first causes; causes that the same commands fix share one."""
    limit = SEVERITY_ORDER[wishes.fail_on]
    found: dict[tuple[str, ...], list[Finding]] = {}
    for at, finding in enumerate(verdict.findings):
        if at not in verdict.consequences and SEVERITY_ORDER[finding.severity] <= limit:
            found.setdefault(finding.remediation.commands, []).append(finding)
    return [_step(commands, tuple(causes), prefix) for commands, causes in found.items()]


def _step(commands: tuple[str, ...], causes: tuple[Finding, ...], prefix: str) -> FixStep:
    if not commands:
        return FixStep(kind="yours", commands=(), causes=causes, why="no command fixes it")
    for kind in ("restore", "repair"):
        if all(shlex.split(command)[:2] == ["envdoctor", kind] for command in commands):
            return FixStep(kind=kind, commands=commands, causes=causes)
    if not Path(prefix, "pyvenv.cfg").is_file():
        return FixStep(kind="yours", commands=commands, causes=causes, why="the environment is not a venv")
    try:
        for command in commands:
            on_a_copy(command, prefix, prefix)
    except NotOnACopyError as error:
        return FixStep(kind="yours", commands=commands, causes=causes, why=error.message)
    return FixStep(kind="commands", commands=commands, causes=causes)


def _planned(steps: Sequence[FixStep], workspace: Workspace, dialog: Dialog) -> tuple[FixStep, ...]:
    """Return the steps with the plans of restore and repair, which are the same as those commands would show."""
    made = []
    for step in steps:
        plan = None
        if step.kind == "restore":
            plan = restoring.restore(workspace, restoring.RestoreOptions(dry_run=True), dialog)
        elif step.kind == "repair":
            plan = repairing.repair(workspace, repairing.RepairOptions(dry_run=True), dialog)
        made.append(replace(step, plan=plan))
    return tuple(made)


def _carried_out(
    planned: Fix, workspace: Workspace, wishes: CheckOptions, dialog: Dialog, store: BackupStore, shown: ShownVenv
) -> Result:
    kept = set(store.numbers())
    doable = [step for step in planned.steps if step.kind != "yours"]
    now = planned.before
    with accounted(store, "what the steps before made") as account:
        for number, step in enumerate(doable, 1):
            if number > 1:
                shown = ShownVenv.of(store)
                now = checking.check(workspace, wishes, dialog).data
                if not _still_there(step, now.verdict):
                    gone = ", ".join(f"{cause.code} ({cause.subject})" for cause in step.causes)
                    dialog.note(f"step {number} of {len(doable)}: left out, the steps before fixed {gone}")
                    continue
            dialog.note(f"step {number} of {len(doable)}: {'; '.join(step.commands)}")
            try:
                shown.refuse_another(store)
                shown.refuse_changed()
                _carry_out(step, workspace, dialog, store, shown)
            except (KeyboardInterrupt, EnvdoctorError) as error:
                undo = _undo(store, kept)
                told = f"\nwhat was done before is undone by `{undo}`" if undo else ""
                at = f"step {number} of {len(doable)}"
                if isinstance(error, KeyboardInterrupt | Interrupted):
                    raise Interrupted(f"interrupted in {at}\n{account.state}{told}") from error
                state = account.after(error)
                said = error.message.removesuffix(f"\n{state}")  # of a step that has said it itself
                raise RestoreError(f"{at} failed: {said}\n{state}{told}", error.hint) from error
        after = checking.check(workspace, wishes, dialog)
    done = replace(planned, status="fixed", after=after.data, undo=_undo(store, kept))
    return Result(command="check fix", data=done, exit_code=after.exit_code)


def _still_there(step: FixStep, verdict: Verdict) -> bool:
    """Tell whether something of the step's causes is left; of a subject that lists several names, one is enough."""
    there = {(finding.code, name) for finding in verdict.findings for name in subjects(finding)}
    return any((cause.code, name) in there for cause in step.causes for name in subjects(cause))


def _carry_out(step: FixStep, workspace: Workspace, dialog: Dialog, store: BackupStore, shown: ShownVenv) -> None:
    done: Result | None = None
    if step.plan is not None:
        # Planned again, for what is there now; no more is done than what was shown.
        agreeing = AsShown(dialog, step.plan)
        if step.kind == "restore":
            done = restoring.restore(workspace, restoring.RestoreOptions(force=True), agreeing)
        else:
            done = repairing.repair(workspace, repairing.RepairOptions(), agreeing)
    else:
        file = workspace.profile
        wanted = (file.profile, file.lock) if file else (None, None)
        with dialog.listening() as listen:
            made = carry_out(store, step.commands, workspace.host, wanted, listen, shown).made
        for finding in made:
            dialog.note(f"could not be seen before: {line(finding)}")
    if done is not None and done.exit_code != ExitCode.OK:
        raise RestoreError(f"`{step.commands[0]}` did not do it", "run it by itself: it says why")


def _undo(store: BackupStore, kept: set[int]) -> str:
    """Return the rollback to the venv as it was before the first step; empty where nothing was swapped."""
    first = min(set(store.numbers()) - kept, default=0)
    return f"envdoctor rollback {first} --venv {shlex.quote(str(store.target))}" if first else ""
