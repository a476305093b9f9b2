"""A profile's stack in a venv: planned, shown, agreed to, built, swapped in."""

from typing import Literal

from envdoctor.app.interrupts import Account, accounted
from envdoctor.app.result import Dialog, Result
from envdoctor.app.shown_plan import StateOnDisk, digest_of, refuse_both, refuse_unfinished, why_refused
from envdoctor.app.unasked import refuse_found_above
from envdoctor.doctor.workspace import Workspace
from envdoctor.errors import Interrupted
from envdoctor.exitcodes import ExitCode
from envdoctor.facts.host import Host
from envdoctor.model.frozen import frozen, replace
from envdoctor.model.plan import Plan
from envdoctor.model.wording import counted
from envdoctor.stack.plan import Extent
from envdoctor.stack.rehearse import Rehearsed, rehearse
from envdoctor.stack.restore import PreparedRestore, RestoreRequest, prepare
from envdoctor.stack.restore_copy import Restored, already_in_place, carry_out
from envdoctor.stack.restore_sources import put_back
from envdoctor.stack.verify import Verified
from envdoctor.swap.seen import SeenVenv
from envdoctor.swap.store import BackupStore
from envdoctor.swap.transaction import recover_first
from envdoctor.wheels import uv
from envdoctor.wheels import wheelhouse as wheelhouses

Status = Literal["planned", "rehearsed", "restored", "already in place"]


@frozen
class RestoreOptions:
    """How a restore is to be done."""

    python: str = ""
    """Base interpreter: a path or a version; empty to choose."""
    dry_run: bool = False
    rehearse: bool = False
    offline: bool = False
    wheelhouses: tuple[str, ...] = ()
    yes: bool = False
    sources: bool = False
    unless_in_use: bool = False
    force: bool = False
    verify: Extent = "changed"
    plan: str = ""
    """Digest of the plan that was shown: carried out without a question, and no other."""


@frozen
class RestoreResult:
    """What a restore would do or did."""

    status: Status
    plan: Plan
    restored: Restored | None = None
    rehearsed: Rehearsed | None = None
    verified: Verified | None = None
    """Of a venv that holds the stack already."""
    sources_put_back: int = 0
    digest: str = ""
    """Of the plan and of what it was made on; empty where nobody asked."""
    refused: str = ""
    """Why the plan that was asked for is not carried out."""


def restore(workspace: Workspace, wishes: RestoreOptions, dialog: Dialog) -> Result:
    """Rebuild the workspace's profile beside the venv and swap it in. Raises UsageError, RestoreError."""
    refuse_both(wishes.plan, dry_run=wishes.dry_run or wishes.rehearse, yes=wishes.yes)
    file, host = workspace.needs_profile("restore", "envdoctor restore --profile NAME"), workspace.host
    if wishes.yes and not (wishes.dry_run or wishes.rehearse):
        refuse_found_above(workspace, new=True)
    request = RestoreRequest(
        target=workspace.folder,
        file=file,
        lock=file.lock,
        python=wishes.python,
        offline=wishes.offline or uv.told_offline(host.environ),
        wheelhouses=wheelhouses.chosen(wishes.wheelhouses, file, host.cwd),
        sources=wishes.sources,
        while_in_use=not wishes.unless_in_use,
        verify=wishes.verify,
    )
    store = BackupStore.of(workspace.folder)
    with accounted(store, "the restored stack") as account:
        return _restore(request, wishes, host, dialog, account)


def _restore(request: RestoreRequest, wishes: RestoreOptions, host: Host, dialog: Dialog, account: Account) -> Result:
    recovered: tuple[str, ...] = ()
    store = BackupStore.of(request.target)
    if wishes.plan:
        refuse_unfinished(store)
    elif not wishes.dry_run:
        with dialog.listening() as listen:
            recovered = recover_first(store, listen)
        account.begin()
    with dialog.waiting(f"planning: looking for the wheels of {request.file.name}"):
        prepared, digest = _prepared(request, wishes, host, store)
    planned = RestoreResult(status="planned", plan=prepared.plan, digest=digest)
    if wishes.dry_run:
        return _result(planned, prepared)
    if wishes.rehearse:
        dialog.show(_result(planned, prepared))
        with dialog.listening() as listen:
            return _result(replace(planned, status="rehearsed", rehearsed=rehearse(prepared, listen)), prepared)
    if wishes.plan and (refused := why_refused(wishes.plan, digest)):
        refusal = replace(planned, refused=refused)
        return Result(command="restore", data=refusal, exit_code=ExitCode.RESTORE_FAILED)
    if not wishes.force and (verified := _in_place(prepared, dialog)):
        return _only_sources(replace(planned, status="already in place", verified=verified), prepared, wishes, dialog)
    _show(planned, prepared, dialog)
    if not (wishes.yes or wishes.plan) and prepared.plan.possible:
        prepared = replace(prepared, shown=prepared.shown.with_entries(store, host))
        if not dialog.agreed(f"Restore {prepared.plan.target}?"):
            raise Interrupted(f"declined\n{account.state}")
    with account.told_with_errors(), dialog.listening() as listen:
        done = carry_out(prepared, listen)
    done = replace(done, recovered=(*recovered, *done.recovered))
    back = _put_back(prepared)
    return Result(command="restore", data=replace(planned, status="restored", restored=done, sources_put_back=back))


def _prepared(
    request: RestoreRequest, wishes: RestoreOptions, host: Host, store: BackupStore
) -> tuple[PreparedRestore, str]:
    """Return the plan, and its digest where one is asked for: what is there is looked at before the plan is made."""
    if not (wishes.dry_run or wishes.plan):
        return prepare(request, host), ""
    seen = SeenVenv(store.target, host)
    state = StateOnDisk([seen], request.file)
    prepared = prepare(request, host)
    prepared = replace(prepared, shown=replace(prepared.shown, seen=seen))
    return prepared, digest_of("restore", (prepared.plan, wishes.force), state)


def _show(planned: RestoreResult, prepared: PreparedRestore, dialog: Dialog) -> None:
    """Show the plan; of one that cannot be carried out what the error to come does not say."""
    if prepared.plan.possible:
        dialog.show(_result(planned, prepared))
        return
    for line in prepared.sources.warnings:
        dialog.note(f"warning: {line}\n")


def _result(data: RestoreResult, prepared: PreparedRestore) -> Result:
    code = ExitCode.OK if prepared.plan.possible else ExitCode.RESTORE_FAILED
    return Result(command="restore", data=data, exit_code=code)


def _in_place(prepared: PreparedRestore, dialog: Dialog) -> Verified | None:
    with dialog.listening() as listen:
        return already_in_place(prepared, listen)


def _only_sources(data: RestoreResult, prepared: PreparedRestore, wishes: RestoreOptions, dialog: Dialog) -> Result:
    changes = prepared.plan.sources
    if changes:
        dialog.show(Result(command="restore", data=replace(data, verified=None)))
        if not (wishes.yes or wishes.plan) and not dialog.agreed(f"Put back {counted(len(changes), 'source file')}?"):
            return Result(command="restore", data=None, exit_code=ExitCode.INTERRUPTED)
    return Result(command="restore", data=replace(data, sources_put_back=_put_back(prepared)))


def _put_back(prepared: PreparedRestore) -> int:
    if prepared.plan.sources:
        put_back(prepared.request.file, prepared.plan.sources, prepared.host.environ)
    return len(prepared.plan.sources)
