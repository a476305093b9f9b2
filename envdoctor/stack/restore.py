"""A restore: plan, build beside, verify, examine, swap. The old venv is touched by the last step only."""

import errno
import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from envdoctor import __version__
from envdoctor.errors import RestoreError, TargetError
from envdoctor.model.lock import Lock, LockedPackage
from envdoctor.model.plan import Plan
from envdoctor.probes.host import Host
from envdoctor.profile_store import ProfileFile
from envdoctor.stack import constraints, interpreters, journal, pip_config, settings, sources
from envdoctor.stack import plan as planning
from envdoctor.stack import uv as uv_tool
from envdoctor.stack.build import build
from envdoctor.stack.events import Event, Listener
from envdoctor.stack.installed import installed, version_of
from envdoctor.stack.journal import Entry
from envdoctor.stack.settings import Sources
from envdoctor.stack.store import Store, locked, remove_tree
from envdoctor.stack.swap import put_in_place, sync_file_system, uninterrupted
from envdoctor.stack.uv import Uv
from envdoctor.stack.verify import Verified, refuse, verify
from envdoctor.stack.wheelhouse import with_wheelhouses

Examine = Callable[[Path], tuple[str, ...]]
"""Examines a built venv and returns what speaks against it."""
NOTE = "envdoctor-restore.json"
"""Written into each restored venv: which lock it holds. It moves with the venv."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is to be restored, where."""

    target: Path
    file: ProfileFile
    lock: Lock
    python: str = ""
    """A path or a version; empty to choose."""
    offline: bool = False
    wheelhouses: tuple[Path, ...] = ()
    """Folders of wheels to take before any other source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A plan and what is needed to carry it out."""

    request: Request
    host: Host
    store: Store
    plan: Plan
    locked: Mapping[str, LockedPackage]
    sources: Sources
    identity: int | None
    """Inode of the venv when the plan was made; None when there was none. Tells afterwards whether it was swapped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What a restore did."""

    target: Path
    kept: Path | None
    """Where the old venv is now; None when there was none."""
    verified: Verified
    recovered: tuple[str, ...]
    """What was done first about an earlier, interrupted restore."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Wall seconds of build, verify, check, swap."""


def prepare(request: Request, host: Host) -> Prepared:
    """Make the plan. Reads the venv, the configuration and the sources; writes nothing outside uv's own cache."""
    store = Store.of(request.target)
    _refuse_strange(store.target)
    uv = uv_tool.locate(host.environ, host.cwd)
    interpreter = interpreters.choose(
        interpreters.Wanted(
            versions=request.file.profile.python.versions,
            named=request.python,
            patient=store.target,
            managed=_managed(uv),
        ),
        host.environ,
        host.home,
    )
    chosen = request.lock.select(interpreter.markers)
    pip = with_wheelhouses(pip_config.read(host.environ, host.home, venv=store.target), request.wheelhouses)
    configured = settings.configured(uv, pip, host.home, interpreter.path)
    found = sources.locate(
        uv,
        list(chosen.values()),
        interpreter,
        configured,
        torch_backend=request.file.profile.lock.torch_backend,
        offline=request.offline,
    )
    plan = planning.assemble(
        target=store.target,
        keep=store.next_generation(),
        file=request.file,
        interpreter=interpreter,
        present=_present(store.target),
        locked=chosen,
        found=found,
        offline=request.offline,
        warnings=(
            *configured.warnings,
            *_ownership(store.target, host),
            *constraints.contradictions(pip.constraints, chosen, interpreter.markers, host.cwd),
        ),
    )
    return Prepared(
        request=request,
        host=host,
        store=store,
        plan=plan,
        locked=chosen,
        sources=configured,
        identity=journal.inode(store.target),
    )


def already_in_place(prepared: Prepared, examine: Examine, listen: Listener) -> Verified | None:
    """Return the verification when the venv holds exactly the lock and the checks agree; None when it does not."""
    plan = prepared.plan
    if not plan.exists or plan.changes or not planning.same(plan.old_interpreter, plan.interpreter.version):
        return None
    verified = verify(prepared.store.target, prepared.locked, listen, strict=False)
    return None if verified.faults or examine(prepared.store.target) else verified


def carry_out(prepared: Prepared, examine: Examine, listen: Listener) -> Restored:
    """Build, verify, examine, swap. On any failure or interrupt the copy is removed and the old venv is as it was."""
    plan, store = prepared.plan, prepared.store
    if plan.unavailable:
        first = plan.unavailable[0]
        more = len(plan.unavailable) - 1
        raise RestoreError(
            f"{first.name} {first.version} is not to be had: {first.reason}" + (f"; and {more} more" if more else ""),
            first.hint,
        )
    with locked(store, lambda text: listen(Event(phase="recover", text=text))) as descriptor:
        recovered = journal.recover(store)
        for text in recovered:
            listen(Event(phase="recover", text=text))
        started = datetime.now(UTC)
        folder = store.builds / started.strftime("%Y%m%dT%H%M%S")
        entry = Entry(
            phase="building", profile=plan.profile, build=str(folder), started=started.isoformat(timespec="seconds")
        )
        store.builds.mkdir(exist_ok=True)
        journal.write(store, entry)
        clock = _Clock()
        try:
            verified = _make_copy(prepared, folder, descriptor, examine, listen, clock)
            listen(Event(phase="swap", text="swapping the new venv in"))
            sync_file_system(folder)
            with uninterrupted():
                kept = put_in_place(store, entry)
            clock.lap("swap")
        except BaseException as error:
            _undo(store, folder)
            if isinstance(error, OSError):
                raise _system_said(error) from error
            raise
        return Restored(target=store.target, kept=kept, verified=verified, recovered=recovered, seconds=clock.laps)


def _make_copy(
    prepared: Prepared, folder: Path, descriptor: int, examine: Examine, listen: Listener, clock: "_Clock"
) -> Verified:
    host = prepared.host
    uv = uv_tool.locate(host.environ, host.cwd, keep_open=(descriptor,))
    build(prepared.plan, prepared.locked, prepared.sources, uv, folder, listen)
    clock.lap("build")
    verified = verify(folder, prepared.locked, listen)
    refuse(verified, "the new venv")
    clock.lap("verify")
    listen(Event(phase="check", text="examining the copy"))
    against = examine(folder)
    if against:
        raise RestoreError(
            f"the checks speak against the new venv: {'; '.join(against)}",
            "the lock itself is at fault if this stays so; correct the profile or its lock",
        )
    clock.lap("check")
    _sign(prepared, folder)
    return verified


def _undo(store: Store, folder: Path) -> None:
    """Remove the copy, unless the swap got so far that the folder is the old venv: then recovery puts it right."""
    entry = journal.read(store)
    if entry is not None and entry.phase == "swapping":
        journal.recover(store)
        return
    remove_tree(folder)
    journal.clear(store)


def _system_said(error: OSError) -> RestoreError:
    where = f" ({error.filename})" if error.filename else ""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    hint = "free some space and run it again" if full else "restore as the owner of the venv's folder"
    return RestoreError(f"{error.strerror or error}{where}", hint)


class _Clock:
    """Wall time by phase."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._since = time.monotonic()

    def lap(self, name: str) -> None:
        now = time.monotonic()
        self.laps[name] = round(now - self._since, 3)
        self._since = now


def _sign(prepared: Prepared, folder: Path) -> None:
    note = {
        "profile": prepared.plan.profile,
        "lock_sha256": sha256(prepared.request.file.lock_path.read_bytes()).hexdigest(),
        "restored_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "envdoctor": __version__,
    }
    (folder / NOTE).write_text(json.dumps(note, indent=1) + "\n", encoding="utf-8")


def _present(venv: Path) -> planning.Present:
    if not (venv / "pyvenv.cfg").is_file():
        return planning.Present(exists=venv.is_dir(), installed={})
    text = (venv / "pyvenv.cfg").read_text(encoding="utf-8", errors="replace").lower().replace(" ", "")
    return planning.Present(
        exists=True,
        version=version_of(venv),
        system_site_packages="include-system-site-packages=true" in text,
        installed=installed(venv),
    )


def _ownership(target: Path, host: Host) -> tuple[str, ...]:
    told = []
    if target.exists() and target.stat().st_uid != host.uid:
        told.append(f"{target} belongs to another user; the new venv will belong to {host.user}")
    if Path(sys.prefix).resolve() == target:
        told.append("envdoctor itself runs from this venv and will be in the old one only, unless the lock has it")
    return tuple(told)


def _refuse_strange(target: Path) -> None:
    """Refuse to replace what is no venv: a folder with other things in it, a conda environment, a file."""
    hint = "name a venv, or a path where there is nothing yet: `--venv PATH`"
    if not target.parent.is_dir():
        raise TargetError(f"{target.parent} does not exist", hint)
    if not target.exists():
        return
    if not target.is_dir():
        raise TargetError(f"{target} is no folder", hint)
    if target.is_mount():
        raise TargetError(f"{target} is a mount point, which cannot be swapped for another folder", hint)
    if (target / "conda-meta").is_dir():
        raise TargetError(f"{target} is a conda environment, which a lock of wheels cannot replace", hint)
    if not (target / "pyvenv.cfg").is_file() and any(target.iterdir()):
        raise TargetError(f"{target} is no venv (it has no pyvenv.cfg), so it is not replaced", hint)


def _managed(uv: Uv) -> Path | None:
    told = uv.run(("python", "dir")).stdout.strip()
    return Path(told) if told else None
