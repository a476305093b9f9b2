"""Only what is damaged, installed again on a copy that is swapped in."""

from typing import Literal

from envdoctor.app.interrupts import Account, accounted
from envdoctor.app.result import Dialog, Result
from envdoctor.app.unasked import refuse_found_above
from envdoctor.doctor.workspace import Workspace
from envdoctor.errors import Interrupted, RestoreError
from envdoctor.exitcodes import ExitCode
from envdoctor.facts.host import Host
from envdoctor.model.frozen import frozen, replace
from envdoctor.stack.repair import PreparedRepair, RepairRequest, prepare
from envdoctor.stack.repair_copy import Repaired, carry_out
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


@frozen
class RepairResult:
    """What a repair would do or did."""

    status: Status
    prepared: PreparedRepair
    done: Exchanged[Repaired] | None = None


def repair(workspace: Workspace, wishes: RepairOptions, dialog: Dialog) -> Result:
    """Repair the target venv with the fewest reinstalls. Raises UsageError, RestoreError."""
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
    with dialog.listening() as listen:
        if not wishes.dry_run:
            recover_first(BackupStore.of(request.target), listen)
            account.begin()
        prepared = prepare(request, host, listen)
    planned = RepairResult(status="planned", prepared=prepared)
    if not prepared.plan.changes.needed:
        return _nothing_to_reinstall(prepared)
    if wishes.dry_run:
        return Result(command="repair", data=planned)
    dialog.show(Result(command="repair", data=planned))
    if not wishes.yes and not dialog.agreed(f"Repair {prepared.plan.target}?"):
        raise Interrupted(f"declined\n{account.state}")
    done = _carry_out(prepared, dialog, account)
    return Result(command="repair", data=replace(planned, status="repaired", done=done))


def _nothing_to_reinstall(prepared: PreparedRepair) -> Result:
    status: Status = "not repaired" if prepared.before else "nothing to repair"
    code = ExitCode.RESTORE_FAILED if prepared.before else ExitCode.OK
    return Result(command="repair", data=RepairResult(status=status, prepared=prepared), exit_code=code)


def _carry_out(prepared: PreparedRepair, dialog: Dialog, account: Account) -> Exchanged[Repaired]:
    try:
        with dialog.listening() as listen:
            return carry_out(prepared, listen)
    except RestoreError as error:
        raise RestoreError(f"{error.message}\n{account.state}", error.hint) from error
