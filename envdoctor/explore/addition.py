"""What installing something would do: done to a scratch copy, which is compared with the venv and deleted."""

import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from envdoctor.catalog.variables import given_to_uv
from envdoctor.doctor.examine import judge, take_fingerprint
from envdoctor.errors import ProbeError, UsageError
from envdoctor.explore.environment import ExploredEnvironment, explore
from envdoctor.explore.providers import Providers, changes
from envdoctor.explore.removal import import_error, modules_without, unmet_texts
from envdoctor.explore.scratch import Scratch, scratch_copy
from envdoctor.facts.context import Options
from envdoctor.facts.host import Host
from envdoctor.facts.target import resolve
from envdoctor.model.finding import Finding
from envdoctor.model.frozen import frozen, replace
from envdoctor.model.impact import Action, FindingLine, Gone, Impact, Loss, ProviderChange, Stopped, VersionChange
from envdoctor.probes.venv.distributions import Distribution
from envdoctor.probes.venv.installed_files import InstalledFiles
from envdoctor.probes.venv.interpreter import Interpreter
from envdoctor.standards.need import meets, parse_need
from envdoctor.standards.requirements import parse_requirement
from envdoctor.wheels import index_config, pip_config, uv_config
from envdoctor.wheels import uv as uv_tool
from envdoctor.wheels.uv import UvError

if TYPE_CHECKING:  # an install is tried without a profile
    from envdoctor.documents.profile_store import ProfileRef

Stage = Callable[[str], AbstractContextManager[None]]
"""Says what is begun now, until its block ends."""
# Launchers of a copy start the original's Python: that is the copy's fault.
_OF_THE_COPY = ("ED103",)


@frozen
class Install:
    """What is to be tried."""

    specs: tuple[str, ...]
    no_deps: bool = False
    upgrade: bool = False
    offline: bool = False
    no_build_isolation: bool = False

    def arguments(self) -> tuple[str, ...]:
        """Return uv's arguments for it."""
        flags = [
            ("--no-deps", self.no_deps),
            ("--upgrade", self.upgrade),
            ("--offline", self.offline),
            ("--no-build-isolation", self.no_build_isolation),
        ]
        return (*(name for name, given in flags if given), *self.specs)


def addition(before: ExploredEnvironment, host: Host, wanted: Install, stage: Stage) -> Impact:
    """Return the impact of an install. uv starts the copy's interpreter; the venv itself is only read.

    Raises UsageError for what is no requirement, ProbeError when uv cannot install it.
    """
    strange = next((spec for spec in wanted.specs if not _is_requirement(spec)), None)
    if strange is not None:
        raise UsageError(
            f"`{strange}` is not a requirement", "name distributions: `envdoctor impact install numpy==2.4.4`"
        )
    target = before.reading.target
    if not before.reading.fact(Interpreter).is_venv:
        raise UsageError(f"{target.prefix} is not a venv, and only a venv can be copied", "try the install in a venv")
    if _installed_already(before, wanted) and not _told_to_replace(host):
        return _unchanged(before, wanted)
    copying = stage(f"copying {target.prefix}")
    with scratch_copy(target.prefix, copying) as scratch:
        with stage(f"installing {' '.join(wanted.specs)} into the copy"):
            _install(scratch, host, wanted)
        with stage("comparing the copy with the venv"):
            return _compare(before, explore(resolve(scratch.copy), host), scratch, wanted)


def _is_requirement(spec: str) -> bool:
    """Tell whether uv may know what it is: a requirement, or a path, a URL or the name of an archive."""
    if spec.startswith("-"):
        return False
    if "/" in spec or spec == "." or spec.endswith((".whl", ".gz", ".zip", ".bz2", ".xz")):
        return True
    return parse_requirement(spec) is not None


def _installed_already(before: ExploredEnvironment, wanted: Install) -> bool:
    """Tell whether uv would change nothing: every requirement is met, and whatever those require is met too.

    A URL or an extra is left to uv, and so is everything once some requirement of the environment is not met.
    """
    if wanted.upgrade or not all(_held(before, spec) for spec in wanted.specs):
        return False
    return wanted.no_deps or not unmet_texts(before)


def _held(before: ExploredEnvironment, spec: str) -> bool:
    need = parse_need(spec)
    if need is None or need.extras or need.marker or "@" in spec:
        return False
    item = _active(before).get(need.name)
    return item is not None and bool(item.version) and meets(item.version, need.specifier)


def _told_to_replace(host: Host) -> bool:
    settings = uv_config.read(host.environ, host.home, host.cwd).text()
    return "reinstall" in settings or "upgrade" in settings


def _unchanged(before: ExploredEnvironment, wanted: Install) -> Impact:
    raised = import_error(before.played)
    named = ", ".join(wanted.specs)
    return Impact(
        target=str(before.reading.target.prefix),
        action="install",
        asked=wanted.specs,
        distributions=(),
        gone=(),
        losses=(),
        providers=(),
        import_before=raised,
        import_after=raised,
        unmet=(),
        stops=(),
        notes=(f"{named}: installed already, with all that it requires; uv would change nothing",),
    )


def _install(scratch: Scratch, host: Host, wanted: Install) -> None:
    python = f"{scratch.copy}/bin/python"
    tool = uv_tool.locate(host.environ, host.cwd)
    kept = {name: value for name, value in host.environ.items() if given_to_uv(name, impact=True)}
    tool = replace(tool, environment={**kept, **tool.environment})
    try:
        pip = pip_config.read(host.environ, host.home, venv=Path(scratch.source))
        reach = index_config.configured(tool, pip, host.home, python).everywhere
        # Links into uv's cache: nothing is copied, and what is there already is replaced by renaming.
        linked = ("--link-mode", "symlink")
        # An exact version is taken from whichever index has it, as pip does: uv stops at the first that has the name.
        exact = ("--index-strategy", "unsafe-best-match") if all("==" in spec for spec in wanted.specs) else ()
        tool.run(
            ("pip", "install", "--python", python, *linked, *exact, *reach.arguments, *wanted.arguments()),
            extra=reach.variables,
        )
    except UvError as error:
        raise ProbeError(f"{' '.join(wanted.specs)} cannot be installed: {error.message}", error.hint) from error
    _refuse_dangling(scratch)


def _refuse_dangling(scratch: Scratch) -> None:
    for info in Path(scratch.copy).glob("lib/python3.*/site-packages/*.dist-info/METADATA"):
        if info.is_symlink() and not info.exists():
            raise ProbeError(
                f"uv kept nothing in its cache, so the copy's {info.parent.name} leads nowhere",
                "let uv keep a cache for this: unset `no-cache` in its configuration",
            )


def compared(
    before: ExploredEnvironment,
    after: ExploredEnvironment,
    scratch: Scratch,
    asked: tuple[str, ...],
    *,
    action: Action = "install",
    profile: "ProfileRef | None" = None,
) -> Impact:
    """Return what a change in the scratch copy does; with a profile, its findings are compared too."""
    providers = tuple(_providers(before, after))
    known = set(unmet_texts(before))
    appear, disappear = _findings(before, after, scratch, profile)
    return Impact(
        target=scratch.source,
        action=action,
        asked=asked,
        distributions=tuple(_versions(before, after)),
        gone=tuple(_gone(before, after)),
        losses=tuple(_losses(before, after)),
        providers=providers,
        import_before=import_error(before.played),
        import_after=import_error(after.played).replace(scratch.copy, scratch.source),
        unmet=tuple(text for text in unmet_texts(after) if text not in known),
        stops=(*_without_what_went(before, after), *_stops(after, providers)),
        appear=appear,
        disappear=disappear,
        notes=tuple(f"{path} is not a file and was not copied" for path in scratch.left_out),
    )


def _compare(before: ExploredEnvironment, after: ExploredEnvironment, scratch: Scratch, wanted: Install) -> Impact:
    impact = compared(before, after, scratch, wanted.specs)
    if impact.harmful:
        return impact
    python = shlex.quote(str(before.reading.target.interpreter))
    specs = " ".join(map(shlex.quote, wanted.arguments()))
    return replace(impact, commands=(f"uv pip install --python {python} {specs}",))


def _active(environment: ExploredEnvironment) -> dict[str, Distribution]:
    return {item.name: item for item in environment.items if not item.shadowed}


def _versions(before: ExploredEnvironment, after: ExploredEnvironment) -> Iterator[VersionChange]:
    old, new = _active(before), _active(after)
    for name in sorted({*old, *new}):
        was, becomes = (items[name].version if name in items else "" for items in (old, new))
        if was != becomes or (name in old) != (name in new):
            yield VersionChange(name=name, before=was, after=becomes)


def _gone(before: ExploredEnvironment, after: ExploredEnvironment) -> Iterator[Gone]:
    prefix, copy = str(before.reading.target.prefix), str(after.reading.target.prefix)
    stays = {(item.name, item.version) for item in after.items}
    for at, item in enumerate(before.items):
        if (item.name, item.version) in stays:
            continue
        paths = {os.path.normpath(f"{item.site}/{row[0]}") for row in before.records.rows.get(at, ())}
        sizes = [
            os.lstat(path).st_size
            for path in paths
            if os.path.lexists(path) and not os.path.lexists(copy + path.removeprefix(prefix))
        ]
        yield Gone(owner=item.name, version=item.version, files=len(sizes), bytes=sum(sizes))


def _losses(before: ExploredEnvironment, after: ExploredEnvironment) -> Iterator[Loss]:
    """Yield what distributions that stay as they are would lose to others."""
    stays = {item.name: item for item in before.items if _active(after).get(item.name, item).version == item.version}
    known = {(fault.owner, fault.path) for fault in before.reading.fact(InstalledFiles).faults}
    known |= set(_overwritten(before))
    lost: dict[str, set[str]] = {}
    faults = ((fault.owner, fault.path) for fault in after.reading.fact(InstalledFiles).faults)
    for owner, path in (*faults, *_overwritten(after)):
        if owner in stays and (owner, path) not in known:
            lost.setdefault(owner, set()).add(path)
    takers = {item.path: item.on_disk for item in after.reading.fact(InstalledFiles).contested}
    for owner, paths in sorted(lost.items()):
        by = {name for path in paths for name in takers.get(path, ()) if name != owner}
        ordered = tuple(sorted(paths, key=lambda path: (".so" not in path, path)))
        version = stays[owner].version
        yield Loss(owner=owner, version=version, paths=ordered, taken_by=", ".join(sorted(by)))


def _overwritten(environment: ExploredEnvironment) -> Iterator[tuple[str, str]]:
    for item in environment.reading.fact(InstalledFiles).contested:
        if item.told_by in ("size", "hash"):
            yield from ((claim.owner, item.path) for claim in item.claims if claim.owner not in item.on_disk)


def _providers(before: ExploredEnvironment, after: ExploredEnvironment) -> Iterator[ProviderChange]:
    found = []
    for environment in (before, after):
        providers = Providers(environment)
        providers.add_import(environment.played, used=True)
        providers.add_files(environment.objects())
        found.append(providers)
    for change in changes(*found):
        # A library that only comes along is not a change of what is there; one outside the environment cannot be lost.
        if (change.before or change.used) and (change.after or not os.path.isabs(change.before)):
            yield change


def _without_what_went(before: ExploredEnvironment, after: ExploredEnvironment) -> Iterator[Stopped]:
    prefix, copy = str(before.reading.target.prefix), str(after.reading.target.prefix)
    went = {item.name for item in before.items} - {item.name for item in after.items}
    return modules_without(before, went, lambda path: not os.path.lexists(copy + path.removeprefix(prefix)))


def _stops(after: ExploredEnvironment, providers: Sequence[ProviderChange]) -> Iterator[Stopped]:
    lost = {change.soname for change in providers if not change.after}
    for elf in after.objects():
        missing = [soname for soname in elf.needed if soname in lost]
        if missing:
            reason = f"needs {', '.join(missing)}, which nothing would provide"
            yield Stopped(module=after.shown(elf.path), owner=after.owner(elf.path), reason=reason)


def _findings(
    before: ExploredEnvironment, after: ExploredEnvironment, scratch: Scratch, profile: "ProfileRef | None"
) -> tuple[tuple[FindingLine, ...], tuple[FindingLine, ...]]:
    lines = []
    for environment in (before, after):
        reading = environment.reading
        facts = take_fingerprint(reading.target, reading.host, Options(ask_nvml=False))
        verdict = judge(facts, profile.profile, profile.lock) if profile else judge(facts)
        found = (finding for finding in verdict.findings if finding.code not in _OF_THE_COPY)
        lines.append([_line(finding, scratch) for finding in found])
    old, new = lines
    return tuple(line for line in new if line not in old), tuple(line for line in old if line not in new)


def _line(finding: Finding, scratch: Scratch) -> FindingLine:
    title = finding.title.replace(scratch.copy, scratch.source)
    return FindingLine(code=finding.code, severity=finding.severity, title=title)
