"""A repair, carried out: on a linked copy of the venv, verified, examined, swapped. The old one is kept."""

import json
import shlex
import stat
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from envdoctor import __version__
from envdoctor.analysis.damage import site_relative
from envdoctor.analysis.remedies import same_build
from envdoctor.doctor.examine import written_down
from envdoctor.errors import RestoreError
from envdoctor.facts.regular_file import read_regular
from envdoctor.facts.whole_file import rewrite, write_whole
from envdoctor.model.events import Event, Listener
from envdoctor.model.finding import Finding
from envdoctor.model.frozen import frozen, replace
from envdoctor.probes.venv.restore_note import NOTE
from envdoctor.stack.build import install
from envdoctor.stack.bundles import carry_added
from envdoctor.stack.examination import added, blocking_findings, line, reading_of_copy
from envdoctor.stack.folders_in_the_way import clear_the_way, remove_from_copy
from envdoctor.stack.prepared_repair import PreparedRepair
from envdoctor.stack.record_audit import RecordAudit, audit
from envdoctor.stack.repair_plan import Reinstall
from envdoctor.stack.verify import Discrepancy, Verified, equal, refuse
from envdoctor.standards.bounded_json import loads
from envdoctor.swap.hardlinks import linked_copy
from envdoctor.swap.permissions import carry_over
from envdoctor.swap.swap import sync_file_system
from envdoctor.swap.transaction import Copying, Exchanged, exchange
from envdoctor.wheels import uv as uv_tool
from envdoctor.wheels.cached_answers import CachedAnswers
from envdoctor.wheels.uv import Uv

_MAXIMUM_NOTE = 1 << 20


@frozen
class Repaired:
    """The copy that was swapped in."""

    verified: Verified
    remaining: tuple[Finding, ...]
    """Errors of the venv that repair does not fix."""
    revealed: tuple[Finding, ...] = ()
    """Those of them that could not be seen before, behind what was repaired."""


def carry_out(prepared: PreparedRepair, listen: Listener) -> Exchanged[Repaired]:
    """Copy, repair, verify, examine, swap. On a failure or interrupt the copy is removed and the venv is as it was."""
    return exchange(
        prepared.store,
        "repair",
        prepared.plan.profile,
        lambda copying: _make_copy(prepared, copying, listen),
        listen,
        host=prepared.host,
        shown=prepared.shown,
        verdict=lambda: prepared.verdict,
    )


def _make_copy(prepared: PreparedRepair, copying: Copying, listen: Listener) -> Repaired:
    folder, clock, target = copying.folder, copying.clock, prepared.store.target
    listen(Event(phase="copy", text="linking every file of the venv into a copy"))
    linked_copy(target, folder)
    copying.made()
    clock.lap("copy")
    _repair_copy(prepared, folder, copying.descriptor, listen)
    carry_over(target, folder)
    clock.lap("build")
    reading = reading_of_copy(folder, prepared.host, listen, target, prepared.proven)
    read = audit(reading)
    refuse(
        _against(prepared, read),
        "the repaired copy",
        wanted="what its RECORDs and the plan say",
        otherwise=f"`envdoctor check --deep {shlex.quote(str(target))}` says what is wrong with the venv",
    )
    clock.lap("verify")
    listen(Event(phase="check", text="examining the copy"))
    request = prepared.request
    facts = written_down(reading)
    remaining = blocking_findings(facts, request.profile, request.lock, target)
    new = added(remaining, prepared.before)
    revealed = prepared.hidden.revealed(new, facts, read)
    _refuse_new([item for item in new if item not in revealed], prepared)
    clock.lap("check")
    _sign(prepared, folder)
    sync_file_system(folder)
    clock.lap("sync")
    return Repaired(verified=read.counts, remaining=remaining, revealed=revealed)


def _repair_copy(prepared: PreparedRepair, folder: Path, descriptor: int, listen: Listener) -> None:
    host, changes = prepared.host, prepared.plan.changes
    uv = uv_tool.locate(host.environ, host.cwd, keep_open=(descriptor,))
    config = folder / "pyvenv.cfg"
    before = read_regular(config, _MAXIMUM_NOTE)
    # uv then writes scripts that find their interpreter from where they lie: the copy is about to be renamed.
    rewrite(config, before.rstrip(b"\n") + b"\nrelocatable = true\n")
    for inner in (inner for found in prepared.torn.values() for inner in found):
        remove_from_copy(folder, inner)
    old = [item.name for item in changes.removals]
    old += [item.name for item in changes.reinstalls if item.before and item.name not in prepared.torn]
    for inner in prepared.in_the_way:
        clear_the_way(folder, inner)
    if old:
        listen(Event(phase="build", text=f"removing {', '.join(old)} from the copy"))
        uv.run(("pip", "uninstall", "--quiet", "--python", folder / "bin" / "python", *old))
    for inner in prepared.misnamed:
        remove_from_copy(folder, inner)
    for last in (False, True):
        _install(prepared, [item for item in changes.reinstalls if item.last is last], uv, folder, listen)
    carry_added(prepared.store.target, folder, prepared.bundles)
    rewrite(config, before)


def _install(prepared: PreparedRepair, items: Sequence[Reinstall], uv: Uv, folder: Path, listen: Listener) -> None:
    names = {item.name for item in items}
    packages = [package for package in prepared.plan.packages if package.name in names]
    offline = prepared.request.offline
    if packages:
        try:
            install(packages, prepared.pins, prepared.sources, uv, folder, listen, offline=offline)
        except uv_tool.UvError:
            CachedAnswers.of(prepared.host).forget()
            raise
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


def _against(prepared: PreparedRepair, read: RecordAudit) -> Verified:
    """Return the copy's faults: files that are no owner's as recorded, and distributions that are not as planned."""
    found = read.graph
    faults = [
        Discrepancy(owner=min(found.owners[path]), path=site_relative(path), problem="is not as recorded", altered=True)
        for path in sorted(found.broken(frozenset()))
    ]
    for name in sorted(prepared.expected.keys() | read.packages.keys()):
        wanted = prepared.expected.get(name, "")
        there = read.packages[name].version if name in read.packages else ""
        if not (wanted and there and equal(wanted, there)):
            faults.append(
                Discrepancy(owner=name, path="", problem=f"is {there or 'missing'}, not {wanted or 'absent'}")
            )
    return replace(read.counts, faults=tuple(faults))


def _sign(prepared: PreparedRepair, folder: Path) -> None:
    try:
        note = loads(read_regular(folder / NOTE, _MAXIMUM_NOTE))
    except (OSError, ValueError):
        note = {}
    if prepared.plan.profile:
        note["profile"] = prepared.plan.profile
    note |= {"repaired_at": datetime.now(UTC).isoformat(timespec="seconds"), "envdoctor": __version__}
    # The mode of the configuration: it can be read by the same users; the umask of this process has no say.
    mode = stat.S_IMODE((folder / "pyvenv.cfg").lstat().st_mode)
    write_whole(folder / NOTE, (json.dumps(note, indent=1) + "\n").encode(), mode, exact=True)
