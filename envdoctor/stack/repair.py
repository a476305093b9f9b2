"""A repair: only what is damaged, on a linked copy of the venv, verified, examined, swapped. The old one is kept."""

import json
import os
import shlex
import shutil
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from envdoctor import __version__
from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.damage import site_relative
from envdoctor.analysis.duplicates import duplicates
from envdoctor.analysis.remedies import same_build
from envdoctor.doctor.examine import written_down
from envdoctor.documents.profile_store import ProfileRef
from envdoctor.errors import RestoreError, TargetError
from envdoctor.facts.context import Reading
from envdoctor.facts.host import Host
from envdoctor.model.events import Event, Listener
from envdoctor.model.finding import Finding
from envdoctor.model.frozen import frozen, replace
from envdoctor.model.plan import BaseInterpreter
from envdoctor.model.profile import Profile
from envdoctor.probes.venv.distributions import Distribution
from envdoctor.probes.venv.installed_files import InstalledFiles
from envdoctor.probes.venv.interpreter import Interpreter
from envdoctor.stack import interpreters
from envdoctor.stack.build import install
from envdoctor.stack.bundles import carry_appended, longer_bundles
from envdoctor.stack.examination import added, blocking_findings, line, read_deep, reading_of_copy, verdict_of
from envdoctor.stack.folders_in_the_way import folders_in_the_way, misnamed_folders, refuse_linked_out, remove_from_copy
from envdoctor.stack.plan import same
from envdoctor.stack.record_audit import Proven, RecordAudit, audit
from envdoctor.stack.repair_plan import Changes, Reinstall, RepairPlan, conflicts, plan_changes, restore_instead
from envdoctor.stack.repair_sources import located
from envdoctor.stack.replaceable import refuse_no_venv
from envdoctor.stack.verify import Discrepancy, Verified, equal, refuse
from envdoctor.standards.lock import Lock, LockedPackage
from envdoctor.swap.generations import NOTE
from envdoctor.swap.hardlinks import linked_copy
from envdoctor.swap.in_use import users
from envdoctor.swap.permissions import carry_over
from envdoctor.swap.store import BackupStore
from envdoctor.swap.swap import sync_file_system
from envdoctor.swap.transaction import Copying, Exchanged, exchange
from envdoctor.swap.verdicts import KeptVerdict
from envdoctor.wheels import index_config, pip_config
from envdoctor.wheels import uv as uv_tool
from envdoctor.wheels.index_config import IndexConfig
from envdoctor.wheels.uv import Uv
from envdoctor.wheels.wheel_names import WheelNames
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
    verified: Verified
    """The venv as it is."""
    verdict: KeptVerdict
    """What the checks find in it without a profile, for the record of the backup."""


@frozen
class Repaired:
    """The copy that was swapped in."""

    verified: Verified
    remaining: tuple[Finding, ...]
    """Errors of the venv that no reinstall fixes."""


def prepare(request: RepairRequest, host: Host, listen: Listener) -> PreparedRepair:
    """Read every file and plan; writes uv's cache and the memo of digests. Raises RestoreError, TargetError."""
    store = BackupStore.of(request.target)
    refuse_no_venv(store.target)
    if not (store.target / "pyvenv.cfg").is_file():
        raise TargetError(
            f"there is no venv at {store.target}", "name the venv to repair: `envdoctor repair --venv PATH`"
        )
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
    configured = index_config.configured(uv, pip, host.home, interpreter.path)
    found = read.graph
    before = blocking_findings(facts, request.profile, request.lock)
    changes = plan_changes(found, conflicts(case), present, pins, _in_doubt(read, twice))
    asked = [pins[item.name] for item in changes.reinstalls if item.name in pins]
    backend = request.profile.lock.torch_backend if request.profile else ""
    packages = located(asked, uv, interpreter, configured, WheelNames.of(host), backend, offline=request.offline)
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
        total_bytes=sum(found.bytes.values()),
        restore_instead=restore_instead(changes, sum(found.bytes.values()), len(expected)) if request.profile else "",
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
        torn={
            name: tuple(os.path.relpath(folder, store.target) for folder in read.folders[name]) for name in read.torn
        },
        misnamed=misnamed_folders(read, store.target, touched, reading.fact(InstalledFiles).misnamed),
        bundles=longer_bundles(reading.fact(InstalledFiles).faults, touched),
        in_the_way=in_the_way,
        before=before,
        verified=_counts(read),
        verdict=verdict_of(facts),
    )


def _expected(present: Mapping[str, Distribution], changes: Changes) -> dict[str, str]:
    """Return name -> version of what is installed after the repair."""
    gone = {item.name for item in changes.removals}
    stays = {name: item.version for name, item in present.items() if name not in gone}
    return stays | {item.name: item.version for item in changes.reinstalls}


def _in_doubt(read: RecordAudit, twice: Collection[str]) -> dict[str, str]:
    """Return the distributions whose metadata cannot stay as it is, and why."""
    several = {name: f"has {len(read.folders[name])} metadata folders" for name in twice}
    return {**several, **read.torn}


def carry_out(prepared: PreparedRepair, listen: Listener) -> Exchanged[Repaired]:
    """Copy, repair, verify, examine, swap. On a failure or interrupt the copy is removed and the venv is as it was."""
    return exchange(
        prepared.store,
        "repair",
        prepared.plan.profile,
        lambda copying: _make_copy(prepared, copying, listen),
        listen,
        verdict=lambda: prepared.verdict,
    )


def _make_copy(prepared: PreparedRepair, copying: Copying, listen: Listener) -> Repaired:
    folder, clock, target = copying.folder, copying.clock, prepared.store.target
    listen(Event(phase="copy", text="linking every file of the venv into a copy"))
    linked_copy(target, folder)
    clock.lap("copy")
    _repair_copy(prepared, folder, copying.descriptor, listen)
    carry_over(target, folder)
    clock.lap("build")
    reading = reading_of_copy(folder, prepared.host, listen, target, prepared.proven)
    read = audit(reading)
    refuse(_against(prepared, read), "the repaired copy")
    clock.lap("verify")
    listen(Event(phase="check", text="examining the copy"))
    request = prepared.request
    remaining = blocking_findings(written_down(reading), request.profile, request.lock, target)
    _refuse_new(added(remaining, prepared.before), prepared)
    clock.lap("check")
    _sign(prepared, folder)
    sync_file_system(folder)
    clock.lap("sync")
    return Repaired(verified=_counts(read), remaining=remaining)


def _repair_copy(prepared: PreparedRepair, folder: Path, descriptor: int, listen: Listener) -> None:
    host, changes = prepared.host, prepared.plan.changes
    uv = uv_tool.locate(host.environ, host.cwd, keep_open=(descriptor,))
    config = folder / "pyvenv.cfg"
    before = config.read_bytes()
    # uv then writes scripts that find their interpreter from where they lie: the copy is about to be renamed.
    config.write_bytes(before.rstrip(b"\n") + b"\nrelocatable = true\n")
    for inner in (inner for found in prepared.torn.values() for inner in found):
        shutil.rmtree(folder / inner)
    old = [item.name for item in changes.removals]
    old += [item.name for item in changes.reinstalls if item.before and item.name not in prepared.torn]
    for inner in prepared.in_the_way:
        remove_from_copy(folder / inner)
    if old:
        listen(Event(phase="build", text=f"removing {', '.join(old)} from the copy"))
        uv.run(("pip", "uninstall", "--quiet", "--python", folder / "bin" / "python", *old))
    for inner in prepared.misnamed:
        remove_from_copy(folder / inner)
    for last in (False, True):
        _install(prepared, [item for item in changes.reinstalls if item.last is last], uv, folder, listen)
    carry_appended(prepared.store.target, folder, prepared.bundles)
    config.write_bytes(before)


def _install(prepared: PreparedRepair, items: Sequence[Reinstall], uv: Uv, folder: Path, listen: Listener) -> None:
    names = {item.name for item in items}
    packages = [package for package in prepared.plan.packages if package.name in names]
    offline = prepared.request.offline
    if packages:
        install(packages, prepared.pins, prepared.sources, uv, folder, listen, offline=offline)
    loose = [
        f"{item.name} @ {item.wheel}" if item.wheel else same_build(item.name, item.version)
        for item in items
        if item.name not in prepared.pins
    ]
    if loose:
        listen(Event(phase="build", text=f"installing {', '.join(loose)}"))
        reach = prepared.sources.everywhere
        arguments = ["pip", "install", "--quiet", "--no-deps", "--no-build", "--python", str(folder / "bin/python")]
        # Exact versions: whichever source has one may give it, also where the first index has only other versions.
        arguments += ["--index-strategy", "unsafe-best-match", *(("--offline",) if offline else ()), *loose]
        uv.run([*arguments, *reach.arguments], extra=reach.variables)


def _refuse_new(new: Sequence[Finding], prepared: PreparedRepair) -> None:
    """Refuse a copy that has an error which the venv does not have."""
    if not new:
        return
    remedy = new[0].remediation
    commands = "".join(f"\n  {command}" for command in remedy.by_hand or remedy.commands)
    profile = prepared.request.profile
    named = f"--profile {prepared.request.profile_asked} --venv {shlex.quote(str(prepared.store.target))}"
    raise RestoreError(
        f"the repaired copy has an error that the venv does not have: {'; '.join(map(line, new))}",
        f"rebuild the whole stack: `envdoctor restore {named}`" if profile else f"{remedy.text}{commands}",
    )


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


def _counts(read: RecordAudit) -> Verified:
    return Verified(distributions=len(read.packages), files=read.files, bytes=read.bytes, faults=())


def _against(prepared: PreparedRepair, read: RecordAudit) -> Verified:
    """Return the copy's faults: files that are no owner's as recorded, and distributions that are not as planned."""
    found = read.graph
    faults = [
        Discrepancy(owner=min(found.owners[path]), path=site_relative(path), problem="is not as recorded")
        for path in sorted(found.broken(frozenset()))
    ]
    for name in sorted(prepared.expected.keys() | read.packages.keys()):
        wanted = prepared.expected.get(name, "")
        there = read.packages[name].version if name in read.packages else ""
        if not (wanted and there and equal(wanted, there)):
            faults.append(
                Discrepancy(owner=name, path="", problem=f"is {there or 'missing'}, not {wanted or 'absent'}")
            )
    return replace(_counts(read), faults=tuple(faults))


def _sign(prepared: PreparedRepair, folder: Path) -> None:
    try:
        note = json.loads((folder / NOTE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        note = {}
    if prepared.plan.profile:
        note["profile"] = prepared.plan.profile
    note |= {"repaired_at": datetime.now(UTC).isoformat(timespec="seconds"), "envdoctor": __version__}
    (folder / NOTE).write_text(json.dumps(note, indent=1) + "\n", encoding="utf-8")
