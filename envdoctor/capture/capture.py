"""A working venv to a profile and a lock that rebuild it."""

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence

from envdoctor.capture import captured_files, training_code
from envdoctor.capture.captured_files import CapturePaths
from envdoctor.capture.captured_profile import launch_variables, profile_of
from envdoctor.capture.installed_wheels import HOLE, InstalledWheels, ToKeep, find
from envdoctor.catalog.cache_kinds import PORTABLE
from envdoctor.compare.identity import identity_of
from envdoctor.doctor.examine import judge, written_down
from envdoctor.errors import CaptureError
from envdoctor.facts.context import Reading
from envdoctor.gate_package.into_lock import among, keep_wheel
from envdoctor.gate_package.wheel import NAME as GATE_NAME
from envdoctor.model.digest import digest
from envdoctor.model.events import Listener
from envdoctor.model.finding import Finding
from envdoctor.model.fingerprint import Fingerprint, MissingFactError
from envdoctor.model.frozen import frozen, replace
from envdoctor.model.profile import LockWanted, Profile, Waiver
from envdoctor.model.wording import counted
from envdoctor.probes.caches.compile_caches import CompileCaches
from envdoctor.probes.loading.torch_build import TorchBuild
from envdoctor.probes.machine.environment import Environment
from envdoctor.probes.venv.distribution_digests import Content
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.probes.venv.interpreter import Interpreter
from envdoctor.probes.venv.shadowing import Shadowing
from envdoctor.stack.examination import of_the_venv
from envdoctor.standards.lock import Lock, LockedPackage
from envdoctor.wheels.index_config import IndexConfig
from envdoctor.wheels.pylock_text import LockedWheel

_TWICE, _HIDDEN = "ED405", "ED410"
"""The checks of a distribution with several metadata folders, and of a module that hides another."""


@frozen
class CaptureRequest:
    """How a venv is to be captured."""

    name: str
    summary: str
    """Empty for one that is made of the facts."""
    day: str
    """ISO date."""
    without: Mapping[str, str]
    """Distributions to leave out, normalized -> why the lock may lack them; empty where nothing requires them."""
    sources: tuple[str, ...]
    """Patterns of the training code's files; empty for what git tracks."""
    waivers: tuple[Waiver, ...]
    """Findings the profile accepts."""
    cache_key: str
    """Key of the compile caches; empty when it is not known."""
    offline: bool
    """Ask no index, keep every distribution as a wheel."""
    with_gate: bool = False
    """Add the launch gate to the lock."""
    with_outside: bool = False
    """Pin what the venv takes from outside of it too."""


@frozen
class Captured:
    """What was captured and written."""

    target: str
    profile: Profile
    wheels: tuple[LockedWheel, ...]
    kept: tuple[ToKeep, ...]
    """What no index has, with the reason."""
    files: int
    bytes: int
    """Verified by hash."""
    notes: tuple[str, ...]
    """What the capture does not hold."""


def capture(
    reading: Reading, sources: IndexConfig | None, wanted: CaptureRequest, place: CapturePaths, listen: Listener
) -> Captured:
    """Verify, pin, judge and write. Raises CaptureError before anything is written when it cannot be done."""
    found = find(reading, sources, wanted.without, listen, with_outside=wanted.with_outside)
    waived = (Waiver(code=HOLE, reason=reason, subject=name) for name, reason in wanted.without.items() if reason)
    wanted = replace(wanted, waivers=(*wanted.waivers, *waived))
    facts = written_down(reading)
    hashes, note = training_code.source_hashes(place.project, wanted.sources, reading.host.environ)
    profile = _profile(facts, found, wanted, place, hashes, reading)
    _refuse_ill(facts, found, profile, wanted)
    kept = captured_files.keep(found, place, listen)
    wheels = captured_files.wheels_of(found, kept)
    if wanted.with_gate:
        wheels = among(wheels, keep_wheel(place.wheels))
    captured_files.write(place, wheels, profile, facts[Interpreter].machine, _comment(facts, found, wanted))
    return Captured(
        target=str(reading.target.prefix),
        profile=profile,
        wheels=wheels,
        kept=found.to_keep,
        files=found.verified.files,
        bytes=found.verified.bytes,
        notes=(*found.warnings, *_notes(facts, wanted), *([note] if note else [])),
    )


def _profile(
    facts: Fingerprint,
    found: InstalledWheels,
    wanted: CaptureRequest,
    place: CapturePaths,
    hashes: dict[str, str],
    reading: Reading,
) -> Profile:
    try:
        made = profile_of(
            facts,
            name=wanted.name,
            summary=wanted.summary or _summary(facts, found, wanted),
            lock=LockWanted(
                file=place.lock.name, resolved=wanted.day, digest=_digest(facts, wanted.without, found.outside)
            ),
            sources=hashes,
            git=training_code.git_state(place.project, reading.host.environ),
            cache_key=wanted.cache_key,
        )
    except MissingFactError as error:
        raise CaptureError(
            f"the venv cannot be read in full: {error}", "`envdoctor check` says more; fix it first"
        ) from error
    return replace(made, waivers=wanted.waivers)


def _digest(facts: Fingerprint, without: Collection[str], outside: Sequence[Content]) -> str:
    """Return the digest of what is locked: the stack without what was left out, with what it takes from outside."""
    whole = identity_of(facts, outside)
    return digest(
        replace(
            whole,
            members=tuple(member for member in whole.members if member.name not in without),
            providers=tuple(one for one in whole.providers if one[1] not in without),
            deviations=tuple(text for text in whole.deviations if text.partition(": ")[0] not in without),
        )
    )


def _summary(facts: Fingerprint, found: InstalledWheels, wanted: CaptureRequest) -> str:
    number = counted(len(found.pinned) + len(found.to_keep), "package")
    return (
        f"torch {facts[TorchBuild].version} on CPython {facts[Interpreter].minor}, {number}, captured on {wanted.day}"
    )


def _refuse_ill(facts: Fingerprint, found: InstalledWheels, profile: Profile, wanted: CaptureRequest) -> None:
    """Refuse a venv that does not pass the checks: rebuilt, it would be ill again."""
    packages = [(one.name, one.version) for one in found.pinned]
    packages += [(one.subject.item.name, one.subject.item.version) for one in found.to_keep]
    lock = Lock(
        name=wanted.name,
        packages=tuple(LockedPackage(name=name, version=version, hashes=()) for name, version in packages),
    )
    against = [
        finding
        for finding in judge(facts, profile, lock, wanted.waivers).findings
        if finding.severity == "error" and of_the_venv(finding) and finding.subject not in wanted.without
        if not _is_left_behind(finding, facts, [name for name, _ in packages], found.left_behind)
    ]
    if against:
        lines = "".join(f"\n  {finding.code} {finding.title} ({finding.subject})" for finding in against)
        raise CaptureError(
            f"the venv does not pass the checks, and neither would one rebuilt from it:{lines}\nnothing was written",
            f"`envdoctor check {shlex.quote(facts.target)}` says how to fix it; accept a finding with "
            "`--ignore CODE=REASON`",
        )


def _is_left_behind(
    finding: Finding, facts: Fingerprint, captured: Collection[str], modules: Collection[tuple[str, str, str]]
) -> bool:
    """Tell whether it is about what a rebuilt venv will not see: distributions outside of this one.

    Of what is taken from there, with its modules, it has one copy: a second one is left behind too.
    """
    if finding.code == _HIDDEN:
        # The subject names the first few alone.
        hidden = [one for one in facts[Shadowing].shadows if f"shadow-folder:{one.front}" in finding.causes]
        return bool(hidden) and all((one.module, one.front, one.behind) in modules for one in hidden)
    outside = {item.name for item in facts[Distributions].items if item.origin != "site-packages"}
    if finding.code == _TWICE:
        return finding.subject in outside and finding.subject in captured
    return bool(outside) and outside.difference(captured).issuperset(finding.subject.split(", "))


def _comment(facts: Fingerprint, found: InstalledWheels, wanted: CaptureRequest) -> str:
    python = facts[Interpreter]
    lines = [
        f"Lock of the profile {wanted.name}: CPython {python.minor}, Linux {python.machine}, captured on {wanted.day}.",
        "Each hash is that of the wheel whose files are the installed ones, file by file.",
    ]
    if found.to_keep:
        names = ", ".join(one.subject.item.name for one in found.to_keep)
        lines.append(f"No index has these; their wheels are in {wanted.name}.wheels beside this file: {names}.")
    return "\n".join(lines)


def _notes(facts: Fingerprint, wanted: CaptureRequest) -> Iterator[str]:
    if wanted.without:
        yield f"left out of the lock: {', '.join(sorted(wanted.without))}"
    environment = facts[Environment]
    if local := launch_variables(environment)[1]:
        yield f"set here, but naming a place of this machine, so not captured: {', '.join(local)}"
    leaking = [name for name in ("LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH") if environment.value(name) is not None]
    if leaking:
        yield f"set here, and able to change what is loaded, but not captured: {', '.join(leaking)}"
    if any(cache.bytes for cache in facts[CompileCaches].caches if cache.kind in PORTABLE):
        yield (
            "the compile caches may be other stacks' too, so the profile states no size; `envdoctor cache status` says "
            "what they hold: add compile.cache_bytes where the folder is this stack's own"
        )
    else:
        yield "the compile caches are cold, so the profile expects nothing of them"
    if wanted.with_gate and facts[Distributions].active(GATE_NAME) is None:
        yield f"the gate is in the lock and not in this venv: `envdoctor restore --profile {wanted.name}` installs it"
    if facts[Interpreter].system_site_packages:
        those = "of which only those are captured that it takes" if wanted.with_outside else "which are not captured"
        yield f"the venv also sees the packages of its base interpreter, {those}"
