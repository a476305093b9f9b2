"""The kept venvs of a target venv: listed, exchanged, removed."""

from collections.abc import Mapping
from typing import Literal

from envdoctor.app.interrupts import Account, accounted
from envdoctor.app.result import Dialog, Result
from envdoctor.app.shown_plan import StateOnDisk, digest_of, refuse_both, refuse_unfinished, why_refused
from envdoctor.app.unasked import refuse_found_above
from envdoctor.doctor.workspace import Workspace
from envdoctor.documents import profile_store
from envdoctor.errors import Interrupted, ProfileError, TargetError, UsageError
from envdoctor.exitcodes import ExitCode
from envdoctor.facts.host import Host
from envdoctor.model.frozen import frozen, replace
from envdoctor.model.plan import VenvUser
from envdoctor.model.wording import counted
from envdoctor.stack.replaceable import refuse_no_venv
from envdoctor.swap import generations, journal, verdicts
from envdoctor.swap.generations import Generation, PrunePlan, RolledBack
from envdoctor.swap.in_use import users
from envdoctor.swap.seen import SeenVenv
from envdoctor.swap.shown import ShownVenv
from envdoctor.swap.space import Space, Tree, scan, space
from envdoctor.swap.store import BackupStore
from envdoctor.swap.transaction import recover_first
from envdoctor.swap.verdicts import KeptVerdict


@frozen
class History:
    """The venv in place and the ones that were kept."""

    target: str
    current: Generation | None
    kept: tuple[Generation, ...]
    """Newest first."""
    trees: Mapping[int, Tree]
    """Number -> the files of that generation."""
    everywhere: Space
    """What they and the venv take together."""
    pending: str | None
    """The command whose journal is there; None when none was interrupted."""


@frozen
class RollbackOptions:
    """How a rollback is to be done."""

    dry_run: bool = False
    yes: bool = False
    plan: str = ""
    """Digest of the plan that was shown: carried out without a question, and no other."""


@frozen
class Rollback:
    """A rollback, before or after it was done."""

    status: Literal["planned", "rolled back"]
    target: str
    back: Generation
    current: Generation | None
    keep: str
    """Where the venv in place goes."""
    users: tuple[VenvUser, ...]
    done: RolledBack | None = None
    digest: str = ""
    """Of the plan and of both venvs; empty where nobody asked."""
    refused: str = ""
    """Why the plan that was asked for is not carried out."""


@frozen
class Prune:
    """A prune, before or after it was done."""

    status: Literal["planned", "pruned"]
    target: str
    plan: PrunePlan
    keep: int
    broken: bool
    """Only those in which the checks found errors."""


def history(workspace: Workspace) -> Result:
    """List the venv in place and what is kept of it. Raises TargetError where there is neither."""
    store = BackupStore.of(workspace.folder)
    found, pending = generations.listed(store), journal.read(store)
    if not (found or pending or (store.target / "pyvenv.cfg").is_file()):
        raise TargetError(
            f"there is no venv at {store.target}, and none was kept of it",
            "name a venv folder or its interpreter: `envdoctor history path/to/.venv`",
        )
    trees = generations.trees(found)
    data = History(
        target=str(store.target),
        current=generations.describe(store.target, 0) if store.target.is_dir() else None,
        kept=tuple(found),
        trees=trees,
        everywhere=space([*trees.values(), scan(store.target)] if found else []),
        pending=str(pending) if pending else None,
    )
    return Result(command="history", data=data)


def rollback(workspace: Workspace, number: int | None, wishes: RollbackOptions, dialog: Dialog) -> Result:
    """Exchange the venv with a kept one; None is the newest. Raises UsageError, RestoreError."""
    refuse_both(wishes.plan, dry_run=wishes.dry_run, yes=wishes.yes)
    if wishes.yes and not wishes.dry_run:
        refuse_found_above(workspace)
    store = BackupStore.of(workspace.folder)
    with accounted(store, f"backup {number}" if number else "the newest backup") as account:
        return _rollback(workspace, number, wishes, dialog, account)


def _rollback(
    workspace: Workspace,
    number: int | None,
    wishes: RollbackOptions,
    dialog: Dialog,
    account: Account,
) -> Result:
    store = BackupStore.of(workspace.folder)
    refuse_no_venv(store.target)
    if wishes.plan:
        refuse_unfinished(store)
    elif not wishes.dry_run:
        with dialog.listening(plain=True) as listen:
            recover_first(store, listen)
        account.begin()
    shown = ShownVenv.of(store)
    if wishes.dry_run or wishes.plan:
        shown = shown.with_entries(store, workspace.host)
    wanted = generations.chosen(store, number)
    number = int(wanted.name)
    there = store.target.is_dir()
    state = StateOnDisk([shown.seen, SeenVenv(wanted, workspace.host)]) if shown.seen else None
    found = _examined(store, workspace.host) if there else None
    plan = Rollback(
        status="planned",
        target=str(store.target),
        back=generations.describe(wanted, number, verdicts.read(store).get(number)),
        current=generations.describe(store.target, 0, found) if there else None,
        keep=str(store.next_generation()),
        users=users(store.target, workspace.host.proc),
    )
    if state:
        plan = replace(plan, digest=digest_of("rollback", plan, state))
    if wishes.dry_run:
        return Result(command="rollback", data=plan)
    if wishes.plan and (refused := why_refused(wishes.plan, plan.digest)):
        return Result(command="rollback", data=replace(plan, refused=refused), exit_code=ExitCode.RESTORE_FAILED)
    dialog.show(Result(command="rollback", data=plan))
    question = f"Go back to backup {number} of {store.target}{_which_had(plan.back.verdict)}?"
    if not (wishes.yes or wishes.plan):
        shown = shown.with_entries(store, workspace.host)
        if not dialog.agreed(question):
            raise Interrupted(f"declined\n{account.state}")
    with dialog.listening(plain=True) as listen:
        done = generations.roll_back(store, plan.back, listen, found, shown=shown)
    return Result(command="rollback", data=replace(plan, status="rolled back", done=done))


def _examined(store: BackupStore, host: Host) -> KeptVerdict | None:
    # Every check comes with it; a plan without one needs none.
    from envdoctor.stack.examination import verdict_on  # noqa: PLC0415

    return verdict_on(store.target, host)


def _which_had(verdict: KeptVerdict | None) -> str:
    return f", which had {counted(len(verdict.errors), 'error')}" if verdict and verdict.errors else ""


def prune(  # noqa: PLR0913 - one for each option
    workspace: Workspace,
    keep: int | None,
    dialog: Dialog,
    *,
    broken: bool,
    with_unrecorded: bool,
    while_in_use: bool = False,
    dry_run: bool,
    yes: bool,
) -> Result:
    """Remove all but the newest `keep` generations, or only the broken ones of them. Raises UsageError, RestoreError.

    keep: None for none, which only `broken` may say.
    """
    if keep is None and broken:
        keep = 0
    if keep is None or keep < 0:
        raise UsageError(
            "--keep needs a number of backups to keep, 0 or more",
            "`envdoctor prune --keep 1`, or `--broken` for those that had errors; `envdoctor history` lists them",
        )
    if yes and not dry_run:
        refuse_found_above(workspace)
    store = BackupStore.of(workspace.folder)
    with accounted(store, "what an interrupted command built"):
        if not dry_run:
            with dialog.listening(plain=True) as listen:
                recover_first(store, listen)
        shown = ShownVenv.of(store)
        hosts = _launch_hosts(workspace.host, dialog)
        plan = generations.plan_prune(
            store, keep, hosts, with_unrecorded=with_unrecorded, while_in_use=while_in_use, broken=broken
        )
        planned = Prune(status="planned", target=str(store.target), plan=plan, keep=keep, broken=broken)
        if dry_run:
            return Result(command="prune", data=planned)
        dialog.show(Result(command="prune", data=planned))
        question = f"Remove {counted(len(plan.removed), 'backup')} of {store.target}?"
        if plan.removed and not yes and not dialog.agreed(question):
            raise Interrupted("declined\nnothing was removed")
        if plan.removed:
            with dialog.listening(plain=True) as listen:
                proc = None if while_in_use else workspace.host.proc
                generations.prune(store, plan.removed, listen, shown=shown, proc=proc, with_unrecorded=with_unrecorded)
        return Result(command="prune", data=replace(planned, status="pruned"))


def _launch_hosts(host: Host, dialog: Dialog) -> tuple[Host, ...]:
    """Return this machine as it is, and as each known profile's launch would see it: that decides where caches lie."""
    seen = [host]
    for name in profile_store.names(host.cwd):
        try:
            variables = profile_store.find(name, host.cwd).profile.environment.set
        except ProfileError as error:
            dialog.note(f"warning: {error.message}; where its caches lie is not known")
            continue
        seen.append(replace(host, environ={**host.environ, **variables}))
    return tuple(seen)
