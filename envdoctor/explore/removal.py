"""What removing distributions would do: computed from RECORDs, METADATA and the loader model, nothing is touched."""

import os
from collections.abc import Callable, Collection, Iterator, Sequence

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.remedies import exchange_commands
from envdoctor.analysis.taken_away import not_to_uninstall
from envdoctor.analysis.unmet import unmet_requirements
from envdoctor.elf.reader import ElfObject
from envdoctor.explore.distributions import distribution_named, requirers_of
from envdoctor.explore.environment import ExploredEnvironment, play
from envdoctor.explore.hidden import HidingDisk
from envdoctor.explore.providers import Providers, changes
from envdoctor.explore.torch_modules import lost_module, lost_to_torch
from envdoctor.facts.folders import walk
from envdoctor.loader.torch_import import TorchImport
from envdoctor.model.fingerprint import Fingerprint
from envdoctor.model.frozen import field, mutable, replace
from envdoctor.model.impact import Gone, Impact, Loss, ProviderChange, Stopped, VersionChange
from envdoctor.model.wording import counted
from envdoctor.probes.loading.torch_build import TorchBuild
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.probes.venv.installed_files import InstalledFiles
from envdoctor.probes.venv.interpreter import Interpreter
from envdoctor.probes.venv.records import Row


def removal(environment: ExploredEnvironment, asked: Sequence[str]) -> Impact:
    """Return the impact of removing distributions as pip and uv do it: every path of their RECORDs goes, shared or not.

    Raises UsageError, with the nearest names, for one that is not there.
    """
    what_if = _WhatIf(
        environment=environment, leaving=tuple(distribution_named(environment, name)[0] for name in asked)
    )
    what_if.hide()
    what_if.look()
    losses = tuple(what_if.losses())
    providers = tuple(what_if.providers())
    import_before, import_after = what_if.imports()
    items = [environment.items[at] for at in what_if.leaving]
    return Impact(
        target=str(environment.reading.target.prefix),
        action="remove",
        asked=tuple(asked),
        distributions=tuple(VersionChange(name=item.name, before=item.version, after="") for item in items),
        gone=tuple(what_if.gone()),
        losses=losses,
        providers=providers,
        import_before=import_before,
        import_after=import_after,
        unmet=tuple(what_if.unmet()),
        stops=tuple(what_if.stops(providers)),
        commands=tuple(what_if.commands(losses)),
        notes=tuple(what_if.notes()),
    )


def modules_without(
    environment: ExploredEnvironment, names: Collection[str], is_gone: Callable[[str], bool]
) -> Iterator[Stopped]:
    """Yield the modules that cannot be imported without these distributions, as `removal` does.

    is_gone: tells of a path of theirs whether it went too.
    """
    leaving = tuple(at for at, item in enumerate(environment.items) if item.name in names)
    what_if = _WhatIf(environment=environment, leaving=leaving)
    what_if.hide()
    what_if.hidden = {path: at for path, at in what_if.hidden.items() if is_gone(path)}
    return what_if.modules()


@mutable
class _WhatIf:
    """The environment as it is, and as it would be."""

    environment: ExploredEnvironment
    leaving: tuple[int, ...]
    """Indices of the distributions that go."""
    hidden: dict[str, int] = field(default_factory=dict)
    """Path that would go -> index of who takes it."""
    disk: HidingDisk = field(default_factory=lambda: HidingDisk(()))
    after: TorchImport | None = None

    def hide(self) -> None:
        for at in self.leaving:
            site = self.environment.items[at].site
            for path, _, _ in self.environment.records.rows.get(at, ()):
                self.hidden.setdefault(os.path.normpath(f"{site}/{path}"), at)

    def look(self) -> None:
        self.disk = HidingDisk(self.hidden)
        if not self._torch_goes():
            self.after = play(self.environment.reading, self.disk)

    def _torch_goes(self) -> bool:
        build = self.environment.reading.fact(TorchBuild)
        return build.present and f"{build.folder}/__init__.py" in self.hidden

    def gone(self) -> Iterator[Gone]:
        for at in self.leaving:
            item = self.environment.items[at]
            sizes = [size for path, size in self.environment.on_disk(at).items() if self.hidden[path] == at]
            yield Gone(owner=item.name, version=item.version, files=len(sizes), bytes=sum(sizes))

    def losses(self) -> Iterator[Loss]:
        lost: dict[tuple[int, int], list[str]] = {}
        for path, taker in self.hidden.items():
            # Nobody misses an empty file: a package without its __init__ is imported as a namespace.
            if _size(path) <= 0 or path.endswith(".pyc"):
                continue
            for owner, _ in self._claims(path):
                if owner not in self.leaving:
                    lost.setdefault((owner, taker), []).append(self.environment.shown(path))
        for (owner, taker), paths in sorted(lost.items()):
            item = self.environment.items[owner]
            yield Loss(
                owner=item.name,
                version=item.version,
                paths=tuple(sorted(set(paths), key=lambda path: (".so" not in path, path))),
                taken_by=self.environment.items[taker].name,
            )

    def imports(self) -> tuple[str, str]:
        before = import_error(self.environment.played)
        if self._torch_goes():
            return before, "ModuleNotFoundError: No module named 'torch'"
        after = import_error(self.after)
        if not after and (module := lost_to_torch(self.environment.reading, self.hidden)):
            after = f"ModuleNotFoundError: No module named '{module}'"
        return before, after

    def providers(self) -> Iterator[ProviderChange]:
        before, after = Providers(self.environment), Providers(self.environment)
        before.add_import(self.environment.played, used=True)
        after.add_import(self.after, used=True)
        before.add_files(self.environment.objects())
        after.add_files(self._staying())
        # What is outside the environment (libc) is not lost by a removal, though no import takes it any more.
        yield from (change for change in changes(before, after) if change.after or not os.path.isabs(change.before))

    def _staying(self) -> Iterator[ElfObject]:
        return (elf for elf in self.environment.objects() if elf.path not in self.hidden)

    def unmet(self) -> Iterator[str]:
        installed = self.environment.reading.fact(Distributions)
        names = {self.environment.items[at].name for at in self.leaving}
        left = replace(installed, items=tuple(item for item in installed.items if item.name not in names))
        known = set(unmet_texts(self.environment))
        yield from (text for text in unmet_texts(self.environment, left) if text not in known)

    def stops(self, providers: Sequence[ProviderChange]) -> Iterator[Stopped]:
        yield from self.modules()
        lost = {change.soname for change in providers if not change.after}
        for elf in self._staying():
            missing = [soname for soname in elf.needed if soname in lost]
            if missing and ".so" in elf.path:
                holder = self.environment.owner(elf.path)
                yield Stopped(
                    module=self.environment.shown(elf.path),
                    owner=holder,
                    reason=f"needs {', '.join(missing)}, which nothing would provide",
                )

    def modules(self) -> Iterator[Stopped]:
        yield from self._own_modules()
        yield from self._requirers()

    def _own_modules(self) -> Iterator[Stopped]:
        """Yield the top-level modules and packages that nothing would make importable any more."""
        for path, at in self.hidden.items():
            module = _module(path.removeprefix(f"{self.environment.items[at].site}/"))
            # A package that keeps other files stays importable without its __init__, as a namespace.
            kept = path.endswith("/__init__.py") and not self._empties(os.path.dirname(path))
            if module and os.path.lexists(path) and not kept:
                stay = [owner for owner, _ in self._claims(path) if owner not in self.leaving]
                owner = self.environment.items[stay[0] if stay else at].name
                yield Stopped(module=module, owner=owner, reason=f"{self.environment.shown(path)} would go")

    def _requirers(self) -> Iterator[Stopped]:
        """Yield the packages of what requires something that goes, whose import certainly takes a module of it."""
        names = [self.environment.items[at].name for at in self.leaving]
        requiring = {one.name for name in names for one in requirers_of(self.environment, name)} - {"torch", *names}
        for at, item in enumerate(self.environment.items):
            if item.name not in requiring or at in self.leaving:
                continue
            for path, _, _ in self.environment.records.rows.get(at, ()):
                package = _module(path) if path.endswith("/__init__.py") else ""
                lost = lost_module(self.environment.reading, item.site, package, self.hidden) if package else ""
                if lost:
                    reason = f"its import takes {lost}, which nothing would provide"
                    yield Stopped(module=package, owner=item.name, reason=reason)

    def _empties(self, folder: str) -> bool:
        for place, folders, names in walk(folder):
            folders[:] = [name for name in folders if name != "__pycache__"]
            if any(f"{place}/{name}" not in self.hidden for name in names):
                return False
        return True

    def _claims(self, path: str) -> Sequence[tuple[int, Row]]:
        return self.environment.records.contested.get(path, ())

    def commands(self, losses: Sequence[Loss]) -> Iterator[str]:
        if not losses:
            return
        case = case_of(self.environment, InstalledFiles)
        names = [self.environment.items[at].name for at in self.leaving]
        if not not_to_uninstall(case, names):
            yield from exchange_commands(case, names, {loss.owner: loss.version for loss in losses}.items())

    def notes(self) -> Iterator[str]:
        for at in self.leaving:
            item = self.environment.items[at]
            if not item.has_record:
                yield f"{item.name} has no RECORD: its own files cannot be determined, and no tool can remove it"
            outside = [path for owner, path in self.environment.records.outside if owner == at]
            if outside:
                yield (
                    f"RECORD of {item.name} lists {counted(len(outside), 'path')} outside the environment, "
                    f"first {outside[0]!r}: an uninstall may delete {'it' if len(outside) == 1 else 'them'}"
                )


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except (OSError, ValueError):
        return -1


def import_error(played: TorchImport | None) -> str:
    """Return what `import torch` raises; empty when it loads, or could not be played."""
    if played is None or played.failure is None:
        return ""
    return f"{played.failure.exception}: {played.failure.message}"


def _module(path: str) -> str:
    """Return the top-level module a path below a site folder makes importable; empty when it makes none."""
    name, inside, rest = path.partition("/")
    if inside:
        return name if rest == "__init__.py" and name.isidentifier() else ""
    stem = name.partition(".")[0]
    return stem if name.endswith((".py", ".so")) and stem.isidentifier() else ""


def unmet_texts(environment: ExploredEnvironment, installed: Distributions | None = None) -> list[str]:
    """Return the unmet requirements of the environment, or of these distributions in it."""
    return [item.text for item in unmet_requirements(case_of(environment, installed=installed))]


def case_of(environment: ExploredEnvironment, *more: type, installed: Distributions | None = None) -> CheckContext:
    """Return what is known of the environment, or with these distributions in it, as the rules take it."""
    reading = environment.reading
    facts = Fingerprint(
        target=str(reading.target.prefix),
        taken_at="",
        tool_version="",
        sections=(installed or reading.fact(Distributions), reading.fact(Interpreter), *(map(reading.fact, more))),
    )
    return CheckContext(facts=facts)
