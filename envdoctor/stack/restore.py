"""The plan of a restore: what the venv has, what the lock wants, and where it comes from (see restore_copy)."""

import os
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

from envdoctor.documents.profile_store import ProfileRef
from envdoctor.errors import TargetError
from envdoctor.facts.answer_memo import AnswerMemo
from envdoctor.facts.host import Host
from envdoctor.model.frozen import field, frozen, replace
from envdoctor.model.plan import BaseInterpreter, Plan
from envdoctor.model.wording import counted
from envdoctor.probes.venv import uv_cache
from envdoctor.probes.venv.own_packages import read_venv
from envdoctor.stack import interpreters
from envdoctor.stack import plan as planning
from envdoctor.stack.lock_holes import holes
from envdoctor.stack.other_builds import other_builds
from envdoctor.stack.replaceable import missing_folders, refuse_cache_inside, refuse_no_venv, refuse_unmanaged_files
from envdoctor.stack.restore_sources import plan_sources
from envdoctor.stack.room import rooms
from envdoctor.standards.lock import Lock, LockedPackage
from envdoctor.swap.generations import compile_cache_in
from envdoctor.swap.in_use import users
from envdoctor.swap.shown import ShownVenv
from envdoctor.swap.store import STORE, BackupStore
from envdoctor.swap.unmanaged_files import unrecorded
from envdoctor.wheels import constraints, index_config, pip_config, printed, wheel_origins
from envdoctor.wheels import uv as uv_tool
from envdoctor.wheels.cached_answers import Question, Remembered
from envdoctor.wheels.impatient import impatient
from envdoctor.wheels.index_config import IndexConfig
from envdoctor.wheels.uv import Uv
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
    shown: ShownVenv
    """The venv that the plan was made of."""
    lock_sha256: str
    """Of the lock's file as it was when the plan was made."""
    other_builds: tuple[str, ...] = ()
    """What the venv has in the locked version, and not from the locked wheel that fits best."""
    filenames: Mapping[str, str] = field(default_factory=dict)
    """Name -> the file name of the wheel that is installed, where it is known."""


def prepare(request: RestoreRequest, host: Host) -> PreparedRestore:
    """Make the plan. Reads the venv, the configuration and the sources; writes nothing outside uv's own cache."""
    store = BackupStore.of(request.target)
    listed = _refuse_target(store.target, host)
    shown = ShownVenv.of(store)
    lock_sha256 = request.file.lock_sha256
    sources_changed = plan_sources(request.file, host.environ) if request.sources else ()
    uv = uv_tool.locate(host.environ, host.cwd)
    pip = with_wheelhouses(pip_config.read(host.environ, host.home, venv=store.target), request.wheelhouses)
    wanted = _interpreter_wanted(request, store, host, uv)
    with impatient(4) as beside:
        # uv and the interpreter answer as processes of their own; what is read here is read while they do.
        memo = AnswerMemo.of("uv-sources", host)
        asking = beside.submit(index_config.configured, uv, pip, host.home, sys.executable, memo)
        reading = beside.submit(_present, store)
        looking = beside.submit(users, store.target, host.proc)
        left = beside.submit(_left_behind, store.target, listed, store.next_generation())
        interpreter = interpreters.choose(wanted, host.environ, host.home)
        chosen = request.lock.select(interpreter.markers)
        _refuse_own(store.target, reading.result(), chosen)
        configured = asking.result()
        refuse_cache_inside(store.target, configured.cache)
        question = _question(request, uv, interpreter, configured)
        found = wheel_origins.locate(question, list(chosen.values()), Remembered.of(host))
    warnings = (
        *configured.warnings,
        *_ignored(request.lock),
        *_ownership(store.target, host),
        *left.result(),
        *constraints.contradictions(pip.constraints, chosen, interpreter.markers, host.cwd),
        *holes(chosen, configured.cache, interpreter, request.file, host),
        *(others := tuple(other_builds(reading.result().installed, found.filenames).values())),
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
    needs = rooms(store.beside, configured.cache, plan.packages, copies=uv.copies)
    return PreparedRestore(
        request=request,
        host=host,
        store=store,
        plan=replace(_sourced(plan, host), rooms=needs),
        locked=found.packages,
        sources=configured,
        shown=shown,
        lock_sha256=lock_sha256,
        other_builds=others,
        filenames=found.filenames,
    )


def _sourced(plan: Plan, host: Host) -> Plan:
    if not any("uv pip " in line for line in plan.warnings):
        return plan
    known = printed.sources(host.environ, host.home, host.cwd, Path(plan.target))
    return replace(plan, warnings=tuple(printed.sourced_text(line, known) for line in plan.warnings))


def _refuse_target(target: Path, host: Host) -> Collection[str]:
    refuse_no_venv(target, new=True)
    refuse_cache_inside(target, uv_cache.folder(host))
    return refuse_unmanaged_files(target)


def _left_behind(target: Path, listed: Collection[str], keep: Path) -> list[str]:
    """Return the warning that names what a user has put among the packages: the new venv will not have it."""
    if not target.is_dir():
        return []
    found = unrecorded(target, listed, caches=False)
    if not found:
        return []
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    files = counted(len(found), "file")
    return [f"{files} that no RECORD lists will be in the old venv only, {keep}: {', '.join(found[:3])}{more}"]


def _question(request: RestoreRequest, uv: Uv, interpreter: BaseInterpreter, sources: IndexConfig) -> Question:
    return Question(
        uv=uv,
        interpreter=interpreter,
        sources=sources,
        torch_backend=request.file.profile.lock.torch_backend,
        offline=request.offline,
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
        memo=AnswerMemo.of("interpreters", host),
    )


def _ignored(lock: Lock) -> tuple[str, ...]:
    """Return a warning for the options in the lock that are not used."""
    if not lock.ignored:
        return ()
    names = ", ".join(f"`{option}`" for option in lock.ignored)
    return (f"{names} in the lock: not used, since pip's and uv's configuration says where wheels come from",)


def _ownership(target: Path, host: Host) -> tuple[str, ...]:
    """Return warnings for a venv of another user and for a compile cache inside the venv."""
    told = []
    if target.exists() and target.stat().st_uid != host.uid:
        told.append(f"{target} belongs to another user; the new venv will belong to {host.user}")
    if target.is_dir() and (cache := compile_cache_in(target, target, host)):
        told.append(f"the compile cache {cache} is inside the venv and will be in the old one only; nothing deletes it")
    return tuple(told)


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
    if Path(os.path.realpath(sys.prefix)) == target and _OWN in present.installed and _OWN not in chosen:
        raise TargetError(
            f"{target} is the venv that envdoctor itself runs from, and the lock does not have {_OWN}: "
            "a restore would move it away with the old venv, and a rollback would need it",
            "name the venv to restore: `--venv PATH`; to restore this one, run an envdoctor installed elsewhere",
        )


def _managed(uv: Uv) -> Path | None:
    told = uv.run(("python", "dir")).stdout.strip()
    return Path(told) if told else None
