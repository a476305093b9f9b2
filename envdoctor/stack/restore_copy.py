"""A restore carried out: build beside, verify, examine, swap. The old venv is touched by the last step only."""

import json
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from threading import Event as Flag

from envdoctor import __version__
from envdoctor.errors import RestoreError
from envdoctor.facts.context import Reading
from envdoctor.model.events import Event, Listener
from envdoctor.model.frozen import field, frozen, mutable, replace
from envdoctor.model.plan import Plan, VenvUser
from envdoctor.model.wording import counted
from envdoctor.probes.venv.own_packages import own_packages
from envdoctor.probes.venv.parsed_record import RecordsAhead
from envdoctor.probes.venv.restore_note import AS_BUILT, NOTE
from envdoctor.stack.build import build
from envdoctor.stack.hashed_ahead import HashedAhead, ReadWhileBuilt
from envdoctor.stack.other_builds import built_as
from envdoctor.stack.plan import same
from envdoctor.stack.restore import PreparedRestore
from envdoctor.stack.room import refuse_too_little
from envdoctor.stack.verify import Verified, refuse
from envdoctor.stack.verify_copy import failed_checks, known_contents, refuse_failed, verify_copy, verify_in_place
from envdoctor.swap import durable
from envdoctor.swap.in_use import users
from envdoctor.swap.permissions import carry_over
from envdoctor.swap.swap import sync_file_system
from envdoctor.swap.transaction import Copying, exchange
from envdoctor.swap.verdicts import KeptVerdict
from envdoctor.wheels import uv as uv_tool
from envdoctor.wheels.cached_answers import CachedAnswers

_AGAIN = "run the same command again; if it stays so, look at the network and the proxy"
_FOR_EACH = (
    "`envdoctor restore --dry-run` with the same profile and sources says for each what to do; `--rehearse` builds and "
    "verifies the others"
)
_SHOWN = 8

_PAUSE = 0.02
"""Seconds between two looks for RECORDs."""


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


def already_in_place(prepared: PreparedRestore, listen: Listener) -> Verified | None:
    """Return the verification when the venv holds exactly the lock and the checks agree; None when it does not."""
    plan = prepared.plan
    if (
        not plan.exists
        or plan.changes
        or prepared.other_builds
        or not same(plan.old_interpreter, plan.interpreter.version)
    ):
        return None
    request, host = prepared.request, prepared.host
    verified, reading = verify_in_place(prepared.store.target, prepared.locked, host, listen, request.verify)
    return None if verified.faults or _failed_checks(prepared, reading) else verified


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

    done = exchange(
        store,
        "restore",
        plan.profile,
        make,
        listen,
        host=prepared.host,
        shown=prepared.shown,
        verdict=lambda: old,
    )
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
    try:
        meanwhile = _Meanwhile(prepared=prepared, folder=folder)
        with ThreadPoolExecutor(1) as beside:
            try:
                # An interrupt may come while the thread starts, and the pool waits for it before it leaves.
                working = beside.submit(meanwhile.run)
                build(prepared.plan, prepared.locked, prepared.sources, uv, folder, listen)
            finally:
                meanwhile.over.set()
            known = working.result()
    except uv_tool.UvError:
        CachedAnswers.of(host).forget()
        raise
    copying.made()
    if prepared.plan.exists:
        carry_over(prepared.store.target, folder)
    clock.lap("build")
    with ThreadPoolExecutor(2) as beside:
        # Hashing leaves the interpreter free: the writing out that the swap needs goes on beside it.
        writing = beside.submit(sync_file_system, folder)
        old = beside.submit(_verdict_on_old, prepared)
        final = prepared.store.target
        verified, reading = verify_copy(folder, final, prepared.locked, host, listen, known, meanwhile.found)
        refuse(verified, "the new venv")
        clock.lap("verify")
        listen(Event(phase="check", text="examining the copy"))
        refuse_failed(_failed_checks(prepared, reading))
        writing.result()
    clock.lap("check")
    _sign(prepared, folder, built_as(own_packages(reading), prepared.filenames))
    clock.lap("sync")
    return verified, old.result()


@mutable
class _Meanwhile:
    """What is done in a thread while uv builds."""

    prepared: PreparedRestore
    folder: Path
    over: Flag = field(default_factory=Flag)
    """The build has ended."""
    found: ReadWhileBuilt = field(default_factory=lambda: ReadWhileBuilt(records=RecordsAhead()))

    def run(self) -> dict[bytes, bytes]:
        """Import every check, parse RECORDs and hash wheels as they appear; return what earlier restores read."""
        hashed = HashedAhead(self.prepared.sources.cache, self.over) if self._may_hash() else None
        import_module("envdoctor.stack.examination")
        import_module("envdoctor.doctor.examine").every_check()
        known = known_contents(self.prepared.host, self.prepared.request.verify)
        if hashed:
            self.found = replace(self.found, files=hashed.read)
            hashed.give_way()
        site = ""
        while not self.over.wait(_PAUSE):
            if hashed:
                hashed.look()
            site = site or next(map(str, self.folder.glob("lib/python3*/site-packages")), "")
            if site:
                self.found.records.look(site)
        return known

    def _may_hash(self) -> bool:
        """Tell whether the venv's files will be those in the cache, and some of them come now."""
        plan = self.prepared.plan
        new = any(not package.source.cached for package in plan.packages)
        return new and not any(room.copies for room in plan.rooms) and self.prepared.request.verify == "changed"


def _verdict_on_old(prepared: PreparedRestore) -> KeptVerdict | None:
    from envdoctor.stack.examination import verdict_on  # noqa: PLC0415 - every check comes with it

    return verdict_on(prepared.store.target, prepared.host) if prepared.plan.exists else None


def _failed_checks(prepared: PreparedRestore, reading: Reading) -> tuple[str, ...]:
    request = prepared.request
    return failed_checks(reading, request.file.profile, request.lock, prepared.store.target)


def why_not(plan: Plan) -> tuple[str, str]:
    """Return (message, hint) of the error. A source that did not answer is no reason to fetch a wheel by hand."""
    gone = [one for one in plan.unavailable if not one.transient]
    if not gone:
        first, total = plan.unavailable[0], len(plan.packages) + len(plan.unavailable)
        others = ", ..." if len(plan.unavailable) > 1 else ""
        of = f"{len(plan.unavailable)} of {counted(total, 'wheel')} ({first.name} {first.version}{others})"
        return f"no answer for {of}: {first.reason}", _AGAIN
    if len(gone) == 1:
        return f"{gone[0].name} {gone[0].version} was not found: {gone[0].reason}", gone[0].hint
    lines = [f"{len(gone)} of {counted(len(plan.packages) + len(plan.unavailable), 'wheel')} were not found:"]
    lines += [f"  {one.name} {one.version}: {one.reason}" for one in gone[:_SHOWN]]
    lines += [f"  and {len(gone) - _SHOWN} more"] if len(gone) > _SHOWN else []
    return "\n".join(lines), _FOR_EACH


def _sign(prepared: PreparedRestore, folder: Path, as_built: Mapping[str, object]) -> None:
    note = {
        "profile": prepared.plan.profile,
        "lock_sha256": prepared.lock_sha256,
        "restored_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "envdoctor": __version__,
        **({AS_BUILT: as_built} if as_built else {}),
    }
    # The one file since the copy was written out.
    with (folder / NOTE).open("w", encoding="utf-8") as file:
        file.write(json.dumps(note, indent=1) + "\n")
        file.flush()
        os.fchmod(file.fileno(), (folder / "pyvenv.cfg").stat().st_mode & 0o777)
        os.fsync(file.fileno())
    durable.sync_folder(folder)
