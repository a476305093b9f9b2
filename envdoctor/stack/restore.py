"""A restore: plan, build beside, verify, examine, swap. The old venv is touched by the last step only."""

import json
import os
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

from envdoctor import __version__
from envdoctor.documents.profile_store import ProfileRef
from envdoctor.errors import RestoreError, TargetError
from envdoctor.facts.context import Reading
from envdoctor.facts.host import Host
from envdoctor.model.events import Event, Listener
from envdoctor.model.frozen import field, frozen, replace
from envdoctor.model.plan import Plan, VenvUser
from envdoctor.probes.venv.own_packages import read_venv
from envdoctor.stack import interpreters
from envdoctor.stack import plan as planning
from envdoctor.stack.build import build
from envdoctor.stack.replaceable import missing_folders, refuse_no_venv, refuse_unmanaged_files
from envdoctor.stack.restore_sources import plan_sources
from envdoctor.stack.restore_warnings import ignored, ownership
from envdoctor.stack.room import refuse_too_little, rooms
from envdoctor.stack.unavailable import why_not
from envdoctor.stack.verify import Verified, refuse
from envdoctor.stack.verify_copy import verify_copy, verify_in_place
from envdoctor.standards.lock import Lock, LockedPackage
from envdoctor.swap import durable
from envdoctor.swap.generations import NOTE
from envdoctor.swap.in_use import users
from envdoctor.swap.permissions import carry_over
from envdoctor.swap.store import STORE, BackupStore
from envdoctor.swap.swap import sync_file_system
from envdoctor.swap.transaction import Copying, exchange
from envdoctor.swap.verdicts import KeptVerdict
from envdoctor.wheels import constraints, index_config, pip_config, wheel_origins
from envdoctor.wheels import uv as uv_tool
from envdoctor.wheels.impatient import impatient
from envdoctor.wheels.index_config import IndexConfig
from envdoctor.wheels.uv import Uv
from envdoctor.wheels.uv_cache import cache_folder
from envdoctor.wheels.wheel_names import WheelNames
from envdoctor.wheels.wheelhouse import with_wheelhouses

_OWN = "torch-envdoctor"
"""The distribution that brings envdoctor, as pyproject.toml names it."""


@frozen
class RestoreRequest:
    """What is to be restored, where."""

    target: Path
    file: ProfileRef
    lock: Lock
    python: str = ""
    """A path or a version; empty to choose."""
    offline: bool = False
    wheelhouses: tuple[Path, ...] = ()
    """Folders of wheels to take before any other source."""
    sources: bool = False
    """Put the profile's source files back too, from git."""
    while_in_use: bool = True
    """Swap under processes that run from the venv; else that is refused, also when one is started meanwhile."""
    verify: planning.Extent = "changed"


@frozen
class PreparedRestore:
    """A plan and what is needed to carry it out."""

    request: RestoreRequest
    host: Host
    store: BackupStore
    plan: Plan
    locked: Mapping[str, LockedPackage]
    sources: IndexConfig
    lock_sha256: str
    """Of the lock's file as it was when the plan was made."""


@frozen
class Restored:
    """What a restore did."""

    target: Path
    kept: Path | None
    """Where the old venv is now; None when there was none."""
    users: tuple[VenvUser, ...]
    """Processes that were running from the old venv."""
    verified: Verified
    recovered: tuple[str, ...]
    """What was done first about an earlier, interrupted restore."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Wall seconds of build, verify (checks and writing out beside it), check (what they took longer), sync, swap."""


def prepare(request: RestoreRequest, host: Host) -> PreparedRestore:
    """Make the plan. Reads the venv, the configuration and the sources; writes nothing outside uv's own cache."""
    store = BackupStore.of(request.target)
    refuse_no_venv(store.target, new=True)
    refuse_unmanaged_files(store.target)
    lock_sha256 = request.file.lock_sha256
    sources_changed = plan_sources(request.file, host.environ) if request.sources else ()
    uv = uv_tool.locate(host.environ, host.cwd)
    pip = with_wheelhouses(pip_config.read(host.environ, host.home, venv=store.target), request.wheelhouses)
    wanted = _interpreter_wanted(request, store, host, uv)
    with impatient(4) as beside:
        # uv and the interpreter answer as processes of their own; what is read here is read while they do.
        asking = beside.submit(index_config.configured, uv, pip, host.home, sys.executable)
        reading = beside.submit(_present, store)
        looking = beside.submit(users, store.target, host.proc)
        caching = beside.submit(cache_folder, uv)
        beside.submit(import_module, "envdoctor.stack.examination")  # every check and probe: a fifth of a second
        interpreter = interpreters.choose(wanted, host.environ, host.home)
        chosen = request.lock.select(interpreter.markers)
        _refuse_own(store.target, reading.result(), chosen)
        configured = asking.result()
        found = wheel_origins.locate(
            uv,
            list(chosen.values()),
            interpreter,
            configured,
            names=WheelNames.of(host),
            torch_backend=request.file.profile.lock.torch_backend,
            offline=request.offline,
        )
    warnings = (
        *configured.warnings,
        *ignored(request.lock),
        *ownership(store.target, host),
        *constraints.contradictions(pip.constraints, chosen, interpreter.markers, host.cwd),
    )
    plan = planning.assemble(
        target=store.target,
        keep=store.next_generation(),
        file=request.file,
        interpreter=interpreter,
        present=reading.result(),
        locked=chosen,
        found=found,
        offline=request.offline,
        users=looking.result(),
        sources=sources_changed,
        verify=request.verify,
        warnings=warnings,
    )
    return PreparedRestore(
        request=request,
        host=host,
        store=store,
        plan=replace(plan, rooms=rooms(store.beside, caching.result(), plan.packages, copies=uv.copies)),
        locked=found.packages,
        sources=configured,
        lock_sha256=lock_sha256,
    )


def _interpreter_wanted(
    request: RestoreRequest, store: BackupStore, host: Host, uv: Uv
) -> interpreters.InterpreterRequest:
    return interpreters.InterpreterRequest(
        versions=request.file.profile.python.versions,
        named=request.python,
        target=store.target,
        cwd=host.cwd,
        managed=lambda: _managed(uv),
    )


def already_in_place(prepared: PreparedRestore, listen: Listener) -> Verified | None:
    """Return the verification when the venv holds exactly the lock and the checks agree; None when it does not."""
    plan = prepared.plan
    if not plan.exists or plan.changes or not planning.same(plan.old_interpreter, plan.interpreter.version):
        return None
    request, host = prepared.request, prepared.host
    verified, reading = verify_in_place(prepared.store.target, prepared.locked, host, listen, request.verify)
    return None if verified.faults or failed_checks(prepared, reading) else verified


def carry_out(prepared: PreparedRestore, listen: Listener) -> Restored:
    """Build, verify, examine, swap. On any failure or interrupt the copy is removed and the old venv is as it was."""
    plan, store = prepared.plan, prepared.store
    if plan.unavailable:
        raise RestoreError(*why_not(plan))
    refuse_too_little(plan)
    using = plan.users
    old: KeptVerdict | None = None
    _refuse_in_use(prepared, using)

    def make(copying: Copying) -> Verified:
        nonlocal using, old
        verified, old = _make_copy(prepared, copying, listen)
        # The build took its time: who uses the venv now?
        using = users(store.target, prepared.host.proc)
        _refuse_in_use(prepared, using)
        return verified

    done = exchange(store, "restore", plan.profile, make, listen, verdict=lambda: old)
    return Restored(
        target=store.target,
        kept=done.kept,
        users=using,
        verified=done.made,
        recovered=done.recovered,
        seconds=done.seconds,
    )


def _refuse_in_use(prepared: PreparedRestore, using: tuple[VenvUser, ...]) -> None:
    running = [user for user in using if user.how == "runs"]
    if running and not prepared.request.while_in_use:
        raise RestoreError(
            f"{prepared.store.target} is in use, and is not swapped under {'; '.join(map(str, running))}",
            "wait until it has ended; `run --yes-while-in-use`, or a restore without `--unless-in-use`, swaps all the "
            "same: what it has open stays, what it imports or opens by path later is the new venv's",
        )


def _make_copy(prepared: PreparedRestore, copying: Copying, listen: Listener) -> tuple[Verified, KeptVerdict | None]:
    host, folder, clock = prepared.host, copying.folder, copying.clock
    uv = uv_tool.locate(host.environ, host.cwd, keep_open=(copying.descriptor,))
    build(prepared.plan, prepared.locked, prepared.sources, uv, folder, listen)
    if prepared.plan.exists:
        carry_over(prepared.store.target, folder)
    clock.lap("build")
    with ThreadPoolExecutor(2) as beside:
        # Hashing leaves the interpreter free: the writing out that the swap needs goes on beside it.
        writing = beside.submit(sync_file_system, folder)
        old = beside.submit(_verdict_on_old, prepared)
        final = prepared.store.target
        verified, reading = verify_copy(folder, final, prepared.locked, host, listen, prepared.request.verify)
        refuse(verified, "the new venv")
        clock.lap("verify")
        listen(Event(phase="check", text="examining the copy"))
        refuse_failed(failed_checks(prepared, reading))
        writing.result()
    clock.lap("check")
    _sign(prepared, folder)
    clock.lap("sync")
    return verified, old.result()


def _verdict_on_old(prepared: PreparedRestore) -> KeptVerdict | None:
    from envdoctor.stack.examination import verdict_on  # noqa: PLC0415 - as below

    return verdict_on(prepared.store.target, prepared.host) if prepared.plan.exists else None


def failed_checks(prepared: PreparedRestore, reading: Reading) -> tuple[str, ...]:
    """Return one line for each error that the checks find in the venv itself, with the venv at its final path."""
    from envdoctor.doctor.examine import written_down  # noqa: PLC0415 - every check comes with it
    from envdoctor.stack.examination import blocking_findings, line  # noqa: PLC0415 - as above

    request = prepared.request
    facts = written_down(reading)
    return tuple(map(line, blocking_findings(facts, request.file.profile, request.lock, prepared.store.target)))


def refuse_failed(failed: tuple[str, ...]) -> None:
    """Raise RestoreError when there are any of those lines."""
    if failed:
        raise RestoreError(
            f"the rebuilt venv fails these checks: {'; '.join(failed)}",
            "correct the profile or its lock: the wheels are as locked, so another build gives the same result",
        )


def _sign(prepared: PreparedRestore, folder: Path) -> None:
    note = {
        "profile": prepared.plan.profile,
        "lock_sha256": prepared.lock_sha256,
        "restored_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "envdoctor": __version__,
    }
    # The one file since the copy was written out.
    with (folder / NOTE).open("w", encoding="utf-8") as file:
        file.write(json.dumps(note, indent=1) + "\n")
        file.flush()
        os.fchmod(file.fileno(), (folder / "pyvenv.cfg").stat().st_mode & 0o777)
        os.fsync(file.fileno())
    durable.sync_folder(folder)


def _present(store: BackupStore) -> planning.Present:
    venv = store.target
    if not (venv / "pyvenv.cfg").is_file():
        exists = venv.is_dir() and not (store.inside and all(path.name == STORE for path in venv.iterdir()))
        missing = bool(missing_folders(venv))
        return planning.Present(exists=exists, in_place=store.inside, parent_missing=missing, installed={})
    found = read_venv(venv)
    return planning.Present(
        exists=True,
        in_place=store.inside,
        version=found.python,
        system_site_packages=found.system_site_packages,
        installed=found.packages,
    )


def _refuse_own(target: Path, present: planning.Present, chosen: Mapping[str, LockedPackage]) -> None:
    """Refuse to put the running envdoctor away: nobody would be left to roll back."""
    if Path(sys.prefix).resolve() == target and _OWN in present.installed and _OWN not in chosen:
        raise TargetError(
            f"{target} is the venv that envdoctor itself runs from, and the lock does not have {_OWN}: "
            "a restore would move it away with the old venv, and a rollback would need it",
            "name the venv to restore: `--venv PATH`; to restore this one, run an envdoctor installed elsewhere",
        )


def _managed(uv: Uv) -> Path | None:
    told = uv.run(("python", "dir")).stdout.strip()
    return Path(told) if told else None
