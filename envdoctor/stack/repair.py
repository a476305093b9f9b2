"""The plan of a repair: every file is read, and only what is damaged is to be installed again (see repair_copy)."""

import os
import shlex
from collections.abc import Collection, Mapping
from pathlib import Path

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.damage import renamed_folders
from envdoctor.analysis.duplicates import duplicates
from envdoctor.documents.profile_store import ProfileRef
from envdoctor.errors import RestoreError, TargetError
from envdoctor.facts.answer_memo import AnswerMemo
from envdoctor.facts.context import Reading
from envdoctor.facts.host import Host
from envdoctor.model.events import Listener
from envdoctor.model.finding import Finding
from envdoctor.model.fingerprint import Fingerprint
from envdoctor.model.frozen import frozen
from envdoctor.model.plan import BaseInterpreter
from envdoctor.model.profile import Profile
from envdoctor.model.verdict import STOPS_PYTHON
from envdoctor.probes.venv.distributions import Distribution
from envdoctor.probes.venv.installed_files import InstalledFiles
from envdoctor.probes.venv.interpreter import Interpreter
from envdoctor.stack import interpreters
from envdoctor.stack.bundles import longer_bundles
from envdoctor.stack.examination import blocking_findings, read_deep, verdict_of
from envdoctor.stack.folders_in_the_way import folders_in_the_way, misnamed_folders, refuse_linked_out
from envdoctor.stack.plan import same
from envdoctor.stack.record_audit import Proven, RecordAudit, audit
from envdoctor.stack.repair_plan import Changes, RepairPlan, conflicts, plan_changes, restore_instead
from envdoctor.stack.repair_sources import located
from envdoctor.stack.replaceable import refuse_no_venv
from envdoctor.stack.verify import Verified
from envdoctor.standards.lock import Lock, LockedPackage
from envdoctor.swap.in_use import users
from envdoctor.swap.shown import ShownVenv
from envdoctor.swap.store import BackupStore
from envdoctor.swap.verdicts import KeptVerdict
from envdoctor.wheels import index_config, pip_config
from envdoctor.wheels import uv as uv_tool
from envdoctor.wheels.cached_answers import Question, Remembered
from envdoctor.wheels.index_config import IndexConfig
from envdoctor.wheels.wheelhouse import chosen, with_wheelhouses


@frozen
class RepairRequest:
    """What is to be repaired, towards what."""

    target: Path
    file: ProfileRef | None = None
    lock: Lock | None = None
    offline: bool = False

    @property
    def profile(self) -> Profile | None:
        """Return the profile that was named."""
        return self.file.profile if self.file else None

    @property
    def profile_asked(self) -> str:
        """Return what follows `--profile` in a command to paste: the profile as it was named, quoted; else P."""
        return shlex.quote(self.file.asked) if self.file else "P"


@frozen
class PreparedRepair:
    """A plan and what is needed to carry it out."""

    request: RepairRequest
    host: Host
    store: BackupStore
    plan: RepairPlan
    pins: Mapping[str, LockedPackage]
    expected: Mapping[str, str]
    """Name -> version of every distribution afterwards."""
    sources: IndexConfig
    proven: Proven
    """Files that were as recorded: their links in the copy need no second reading."""
    torn: Mapping[str, tuple[str, ...]]
    """Distributions whose own metadata is damaged, and its folders, relative to the venv."""
    misnamed: tuple[str, ...]
    """Metadata folders of what is changed, relative to the venv, that no uninstall takes away: their RECORD lists
    another one."""
    bundles: tuple[str, ...]
    """Bundles of certificates, relative to the venv, whose appended ones are carried over."""
    in_the_way: tuple[str, ...]
    """Files, links and folders, relative to the venv, where others of what is uninstalled should be."""
    before: tuple[Finding, ...]
    """Errors that the checks find in the venv as it is."""
    shown: ShownVenv
    """The venv that the plan was made of."""
    verified: Verified
    """The venv as it is."""
    verdict: KeptVerdict
    """What the checks find in it without a profile, for the record of the backup."""


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
    pip = pip_config.read(host.environ, host.home, venv=store.target)
    pip = with_wheelhouses(pip, chosen((), request.file, host.cwd) if request.file else ())
    configured = index_config.configured(uv, pip, host.home, interpreter.path, AnswerMemo.of("uv-sources", host))
    changes = plan_changes(read.graph, conflicts(case), present, pins, _in_doubt(read, twice))
    before = _blocking(facts, request, changes)
    asked = [pins[item.name] for item in changes.reinstalls if item.name in pins]
    packages = located(asked, _question(request, uv, interpreter, configured), Remembered.of(host))
    expected = _expected(present, changes)
    touched = {item.name for item in changes.removals} | {item.name for item in changes.reinstalls}
    in_the_way = folders_in_the_way(read, store.target, touched, reading.fact(InstalledFiles).obstacles)
    site = Path(reading.fact(Interpreter).library, "site-packages")
    refuse_linked_out(read, store.target, site, touched, in_the_way)
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
    )
    return PreparedRepair(
        request=request,
        host=host,
        store=store,
        plan=plan,
        pins=pins,
        expected=expected,
        sources=configured,
        proven=read.proven,
        torn=_torn(read, store.target),
        misnamed=misnamed_folders(read, store.target, touched, _misnamed(case)),
        bundles=longer_bundles(reading.fact(InstalledFiles).faults, touched),
        in_the_way=in_the_way,
        before=before,
        shown=shown,
        verified=counts(read),
        verdict=verdict_of(facts),
    )


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


def _misnamed(case: CheckContext) -> Collection[str]:
    return {*case.facts[InstalledFiles].misnamed, *renamed_folders(case)}


def _torn(read: RecordAudit, target: Path) -> dict[str, tuple[str, ...]]:
    return {name: tuple(os.path.relpath(folder, target) for folder in read.folders[name]) for name in read.torn}


def _in_doubt(read: RecordAudit, twice: Collection[str]) -> dict[str, str]:
    """Return the distributions whose metadata cannot stay as it is, and why."""
    several = {name: f"has {len(read.folders[name])} metadata folders" for name in twice}
    return {**several, **read.torn}


def _question(request: RepairRequest, uv: uv_tool.Uv, interpreter: BaseInterpreter, sources: IndexConfig) -> Question:
    backend = request.profile.lock.torch_backend if request.profile else ""
    return Question(uv=uv, interpreter=interpreter, sources=sources, torch_backend=backend, offline=request.offline)


def _interpreter(request: RepairRequest, target: Path, reading: Reading, host: Host) -> BaseInterpreter:
    there = reading.fact(Interpreter)
    version = there.minor
    profile = request.profile
    if profile and not any(same(there.version, wanted) for wanted in profile.python.versions):
        raise RestoreError(
            f"{target} is made with Python {version or 'of unknown version'}, the profile {profile.name} wants "
            f"{' or '.join(profile.python.versions)}: no reinstall changes that",
            f"envdoctor restore --profile {request.profile_asked} --venv {shlex.quote(str(target))}",
        )
    return interpreters.choose(
        interpreters.InterpreterRequest(versions=(version,), target=target, cwd=host.cwd), host.environ, host.home
    )


def counts(read: RecordAudit) -> Verified:
    """Return what was read of a venv."""
    return Verified(distributions=len(read.packages), files=read.files, bytes=read.bytes, faults=())
