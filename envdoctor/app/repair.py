"""Only what is damaged, installed again on a copy that is swapped in."""

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
from envdoctor.stack.prepared_repair import PreparedRepair, RepairRequest
from envdoctor.stack.repair import prepare
from envdoctor.stack.repair_copy import Repaired, carry_out
from envdoctor.swap.seen import SeenVenv
from envdoctor.swap.store import BackupStore
from envdoctor.swap.transaction import Exchanged, recover_first
from envdoctor.wheels import uv

Status = Literal["planned", "nothing to repair", "not repaired", "repaired"]


@frozen
class RepairOptions:
    """How a repair is to be done."""

    offline: bool = False
    dry_run: bool = False
    yes: bool = False
    plan: str = ""
    """Digest of the plan that was shown: carried out without a question, and no other."""


@frozen
class RepairResult:
    """What a repair would do or did."""

    status: Status
    prepared: PreparedRepair
    done: Exchanged[Repaired] | None = None
    digest: str = ""
    """Of the plan and of what it was made on; empty where nobody asked."""
    refused: str = ""
    """Why the plan that was asked for is not carried out."""


def repair(workspace: Workspace, wishes: RepairOptions, dialog: Dialog) -> Result:
    """Repair the target venv with the fewest reinstalls. Raises UsageError, RestoreError."""
    refuse_both(wishes.plan, dry_run=wishes.dry_run, yes=wishes.yes)
    if wishes.yes and not wishes.dry_run:
        refuse_found_above(workspace)
    file, target, host = workspace.profile, workspace.folder, workspace.host
    request = RepairRequest(
        target=target,
        file=file,
        lock=file.lock if file else None,
        offline=wishes.offline or uv.told_offline(host.environ),
    )
    with accounted(BackupStore.of(target), "the repaired stack") as account:
        return _repair(request, wishes, host, dialog, account)


def _repair(request: RepairRequest, wishes: RepairOptions, host: Host, dialog: Dialog, account: Account) -> Result:
    store, digest = BackupStore.of(request.target), ""
    with dialog.listening() as listen:
        if wishes.plan:
            refuse_unfinished(store)
        elif not wishes.dry_run:
            recover_first(store, listen)
            account.begin()
        if wishes.dry_run or wishes.plan:
            seen = SeenVenv(store.target, host)
            state = StateOnDisk([seen], request.file)
            prepared = prepare(request, host, listen)
            prepared = replace(prepared, shown=replace(prepared.shown, seen=seen))
            digest = digest_of("repair", (prepared.plan, prepared.sources, prepared.expected), state)
        else:
            prepared = prepare(request, host, listen)
    planned = RepairResult(status="planned", prepared=prepared, digest=digest)
    if not prepared.plan.changes.needed:
        return _nothing_to_reinstall(prepared)
    if wishes.dry_run:
        return Result(command="repair", data=planned)
    if wishes.plan and (refused := why_refused(wishes.plan, digest)):
        return Result(command="repair", data=replace(planned, refused=refused), exit_code=ExitCode.RESTORE_FAILED)
    dialog.show(Result(command="repair", data=planned))
    if not (wishes.yes or wishes.plan):
        prepared = replace(prepared, shown=prepared.shown.with_entries(store, host))
        if not dialog.agreed(f"Repair {prepared.plan.target}?"):
            raise Interrupted(f"declined\n{account.state}")
    with account.told_with_errors(), dialog.listening() as listen:
        done = carry_out(prepared, listen)
    return Result(command="repair", data=replace(planned, status="repaired", done=done))


def _nothing_to_reinstall(prepared: PreparedRepair) -> Result:
    status: Status = "not repaired" if prepared.before else "nothing to repair"
    code = ExitCode.RESTORE_FAILED if prepared.before else ExitCode.OK
    return Result(command="repair", data=RepairResult(status=status, prepared=prepared), exit_code=code)
