"""The plan of a repair: every file is read, and only what is damaged is to be installed again (see repair_copy)."""

import os
import shlex
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.damage import renamed_folders
from envdoctor.analysis.duplicates import duplicates
from envdoctor.errors import RestoreError, TargetError
from envdoctor.facts.context import Reading
from envdoctor.facts.host import Host
from envdoctor.model.events import Listener
from envdoctor.model.finding import Finding
from envdoctor.model.fingerprint import Fingerprint
from envdoctor.model.plan import BaseInterpreter
from envdoctor.model.verdict import STOPS_PYTHON
from envdoctor.probes.venv.distributions import Distribution
from envdoctor.probes.venv.installed_files import InstalledFiles
from envdoctor.probes.venv.interpreter import Interpreter
from envdoctor.probes.venv.obstacles import Obstacle
from envdoctor.stack import interpreters, repair_sources
from envdoctor.stack.bundles import longer_bundles
from envdoctor.stack.examination import blocking_findings, read_deep, verdict_of
from envdoctor.stack.folders_in_the_way import folders_in_the_way, misnamed_folders, refuse_linked_out
from envdoctor.stack.hidden_errors import hidden
from envdoctor.stack.plan import same
from envdoctor.stack.prepared_repair import PreparedRepair, RepairRequest
from envdoctor.stack.record_audit import RecordAudit, audit
from envdoctor.stack.repair_plan import Changes, RepairPlan, conflicts, plan_changes, restore_instead
from envdoctor.stack.replaceable import refuse_no_venv
from envdoctor.swap.in_use import users
from envdoctor.swap.shown import ShownVenv
from envdoctor.swap.store import BackupStore
from envdoctor.wheels import printed
from envdoctor.wheels import uv as uv_tool


def prepare(request: RepairRequest, host: Host, listen: Listener) -> PreparedRepair:
    """Read every file and plan; writes uv's cache and the memo of digests. Raises RestoreError, TargetError."""
    store = BackupStore.of(request.target)
    refuse_no_venv(store.target)
    if not (store.target / "pyvenv.cfg").is_file():
        raise TargetError(
            f"there is no venv at {store.target}", "name the venv to repair: `envdoctor repair --venv PATH`"
        )
    shown = ShownVenv.of(store)
    uv = uv_tool.locate(host.environ, host.cwd)
    reading, facts = read_deep(store.target, host, listen)
    interpreter = _interpreter(request, store.target, reading, host)
    pins = request.lock.select(interpreter.markers) if request.lock else {}
    read = audit(reading)
    case = CheckContext(facts=facts, profile=request.profile, lock=request.lock)
    twice = duplicates(case)
    present = {**read.packages, **twice}
    sources = repair_sources.configured(uv, interpreter, request, store.target, host)
    torn = _in_doubt(read, twice, reading.fact(InstalledFiles))
    with _sourced_hint(host, store.target):
        changes = plan_changes(read.graph, conflicts(case), present, pins, torn, case.python)
    before = _blocking(facts, request, changes)
    asked = [pins[item.name] for item in changes.reinstalls if item.name in pins]
    packages = repair_sources.located(asked, request, uv, interpreter, sources, host)
    expected = _expected(present, changes)
    touched = {item.name for item in changes.removals} | {item.name for item in changes.reinstalls}
    bundles = longer_bundles(store.target, reading.fact(InstalledFiles).faults, changes)
    plan = RepairPlan(
        target=str(store.target),
        profile=request.profile.name if request.profile else "",
        changes=changes,
        packages=packages,
        total_packages=len(expected),
        total_bytes=sum(read.graph.bytes.values()),
        restore_instead=restore_instead(changes, sum(read.graph.bytes.values()), len(expected))
        if request.profile
        else "",
        users=users(store.target, host.proc),
        keep=str(store.next_generation()),
        warnings=tuple(bundle.told for bundle in bundles),
    )
    return PreparedRepair(
        request=request,
        host=host,
        store=store,
        plan=plan,
        pins=pins,
        expected=expected,
        sources=sources,
        proven=read.proven,
        torn=_torn(read, store.target),
        misnamed=misnamed_folders(read, store.target, touched, _misnamed(case)),
        bundles=bundles,
        in_the_way=_in_the_way(read, store.target, touched, reading),
        before=before,
        hidden=hidden(case, before, read),
        shown=shown,
        verified=read.counts,
        verdict=verdict_of(facts),
    )


@contextmanager
def _sourced_hint(host: Host, target: Path) -> Iterator[None]:
    try:
        yield
    except RestoreError as error:
        known = printed.sources(host.environ, host.home, host.cwd, target)
        raise RestoreError(error.message, printed.sourced_text(error.hint, known)) from error


def _blocking(facts: Fingerprint, request: RepairRequest, changes: Changes) -> tuple[Finding, ...]:
    """Return the errors of the venv. Raises RestoreError where its Python does not start: uv asks it first."""
    found = blocking_findings(facts, request.profile, request.lock)
    stops = next((item for item in found if STOPS_PYTHON in item.causes), None)
    if stops is not None and changes.needed:
        first = "; ".join(stops.remediation.commands) or stops.remediation.text
        raise RestoreError(f"{stops.title}, so that nothing can be installed into it ({stops.code})", f"first: {first}")
    return found


def _expected(present: Mapping[str, Distribution], changes: Changes) -> dict[str, str]:
    """Return name -> version of what is installed after the repair."""
    gone = {item.name for item in changes.removals}
    stays = {name: item.version for name, item in present.items() if name not in gone}
    return stays | {item.name: item.version for item in changes.reinstalls}


def _in_the_way(read: RecordAudit, target: Path, touched: Collection[str], reading: Reading) -> tuple[str, ...]:
    """Return what must go from the copy first. Raises RestoreError where files are behind a link out of the venv."""
    found = folders_in_the_way(read, target, touched, _obstacles(reading.fact(InstalledFiles), read.torn))
    site = Path(reading.fact(Interpreter).library, "site-packages")
    refuse_linked_out(read, target, site, touched, found)
    return found


def _obstacles(files: InstalledFiles, torn: Collection[str]) -> list[Obstacle]:
    """Return what is in the way; of a torn distribution, which cannot be uninstalled, folders in files' places too."""
    folders = (fault for fault in files.faults if fault.kind == "not a file" and fault.owner in torn)
    return [*files.obstacles, *(Obstacle(owner=item.owner, path=item.path, filled=False) for item in folders)]


def _misnamed(case: CheckContext) -> Collection[str]:
    return {*case.facts[InstalledFiles].misnamed, *renamed_folders(case)}


def _torn(read: RecordAudit, target: Path) -> dict[str, tuple[str, ...]]:
    return {name: tuple(os.path.relpath(folder, target) for folder in read.folders[name]) for name in read.torn}


def _in_doubt(read: RecordAudit, twice: Collection[str], files: InstalledFiles) -> dict[str, str]:
    """Return the distributions that cannot stay as they are for another reason than a file in the venv, and why."""
    behind = {
        item.owner: f"lacks code behind {item.link}, a link out of the venv" for item in files.behind if item.lacks_code
    }
    several = {name: f"has {len(read.folders[name])} metadata folders" for name in twice}
    return {**behind, **several, **read.torn}


def _interpreter(request: RepairRequest, target: Path, reading: Reading, host: Host) -> BaseInterpreter:
    there = reading.fact(Interpreter)
    version = there.minor
    profile = request.profile
    if profile and not any(same(there.version, wanted) for wanted in profile.python.versions):
        raise RestoreError(
            f"{target} is made with Python {version or 'of unknown version'}, the profile {profile.name} wants "
            f"{' or '.join(profile.python.versions)}: no reinstall changes that",
            f"rebuild the whole stack: `envdoctor restore --profile {request.profile_asked} --venv "
            f"{shlex.quote(str(target))}`",
        )
    return interpreters.choose(
        interpreters.InterpreterRequest(versions=(version,), target=target, cwd=host.cwd), host.environ, host.home
    )
