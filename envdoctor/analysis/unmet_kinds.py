"""Unmet requirements sorted by what each of them means and by what explains it."""

from collections.abc import Iterable, Mapping

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.file_conflicts import file_conflicts
from envdoctor.analysis.unmet import Unmet, unmet_requirements
from envdoctor.catalog.companion_versions import EQUAL_FAMILIES
from envdoctor.catalog.shared_paths import module_of
from envdoctor.model.frozen import field, frozen
from envdoctor.probes.venv.companions import Companions
from envdoctor.probes.venv.distributions import Distribution, Distributions
from envdoctor.probes.venv.enforced import Enforced
from envdoctor.probes.venv.installed_files import InstalledFiles
from envdoctor.standards.need import meets

_LEAKS = ("PYTHONPATH", "user site")


@frozen
class UnmetKinds:
    """Every unmet requirement, in one of these."""

    torch: tuple[Unmet, ...] = ()
    """torch is not installed: no command can name its build."""
    missing: tuple[Unmet, ...] = ()
    """Not installed, nothing else explains it."""
    holes: tuple[Unmet, ...] = ()
    """Not installed, and the lock does not have it either."""
    provided: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Missing name -> (module it would bring, installed distribution that brings that module already)."""
    provided_for: tuple[Unmet, ...] = ()
    of_intruders: tuple[Unmet, ...] = ()
    """Not installed, and asked for only by distributions that are to be uninstalled themselves."""
    leaked: Mapping[str, tuple[Unmet, ...]] = field(default_factory=dict)
    """Folder in front of the environment -> what would be met without it."""
    compiler: tuple[Unmet, ...] = ()
    """torch's pin of triton."""
    enforced: tuple[Unmet, ...] = ()
    """Another version, where the requirer compares it when it is imported."""
    other: tuple[Unmet, ...] = ()
    """Another version, elsewhere."""


def unmet_kinds(case: CheckContext) -> UnmetKinds:
    """Return the unmet requirements by kind. With a lock a version that it pins so was measured and is left out."""
    pins = case.pins()
    demands = enforced_here(case)
    unmet = [*unmet_requirements(case)]
    unmet += _stated_in_source_alone(case, demands, {(item.requirer.name, item.name) for item in unmet})
    leaked = _by_folder(case, unmet)
    in_front = {id(item) for items in leaked.values() for item in items}
    unmet = [item for item in unmet if id(item) not in in_front]
    absent = [item for item in unmet if not item.installed]
    provided = _provided(case, absent)
    intruders = _intruders(case) if absent else frozenset()
    kept = {item.name for item in absent if item.requirer.name not in intruders}
    mine = [item for item in absent if item.name not in provided and item.name in kept]
    versions = [
        item
        for item in unmet
        if item.installed
        and (raises_at_import(item, demands) or item.name not in pins or pins[item.name].version != item.installed)
    ]
    compiler = [item for item in versions if (item.requirer.name, item.name) == ("torch", "triton")]
    raising = [item for item in versions if raises_at_import(item, demands)]
    return UnmetKinds(
        torch=tuple(item for item in mine if item.name == "torch"),
        missing=tuple(item for item in mine if item.name != "torch" and (case.lock is None or item.name in pins)),
        holes=tuple(item for item in mine if item.name != "torch" and case.lock is not None and item.name not in pins),
        provided=provided,
        provided_for=tuple(item for item in absent if item.name in provided),
        of_intruders=tuple(item for item in absent if item.name not in provided and item.name not in kept),
        leaked=leaked,
        compiler=tuple(compiler),
        enforced=tuple(raising),
        other=tuple(item for item in versions if item not in compiler and item not in raising),
    )


def enforced_here(case: CheckContext) -> dict[tuple[str, str], Enforced]:
    """Return (requirer, required) -> what the requirer's source enforces and the installed version does not meet."""
    companions = case.facts.get(Companions)
    installed = case.facts[Distributions]
    found = {}
    for item in companions.enforced if companions else ():
        present = installed.active(item.name)
        if present is not None and not meets(present.version, item.specifier):
            found[item.requirer, item.name] = item
    return found


def raises_at_import(item: Unmet, demands: Mapping[tuple[str, str], Enforced]) -> str:
    """Return where the requirer's code compares this version at import; empty where it is not known to."""
    if demand := demands.get((item.requirer.name, item.name)):
        return f"{demand.path} compares them: `import {demand.imported}` raises"
    family = EQUAL_FAMILIES.get(item.requirer.name, "")
    if family and item.name.startswith(f"{item.requirer.name}-") and item.pin:
        return f"{family}: `import {item.requirer.name.replace('-', '_')}` raises"
    return ""


def _stated_in_source_alone(
    case: CheckContext, demands: Mapping[tuple[str, str], Enforced], known: set[tuple[str, str]]
) -> Iterable[Unmet]:
    installed = case.facts[Distributions]
    for (requirer, name), demand in demands.items():
        asker, present = installed.active(requirer), installed.active(name)
        if (requirer, name) not in known and asker is not None and present is not None:
            yield Unmet(requirer=asker, extra="", name=name, specifier=demand.specifier, installed=present.version)


def _by_folder(case: CheckContext, unmet: Iterable[Unmet]) -> dict[str, tuple[Unmet, ...]]:
    """Return folder -> what is unmet because that folder of another place comes first, or brought the requirer."""
    items = case.facts[Distributions].items
    active = {item.name: item for item in items if not item.shadowed}
    found: dict[str, list[Unmet]] = {}
    for one in unmet:
        folder = ""
        if one.requirer.origin in _LEAKS:
            folder = one.requirer.site
        elif one.installed and active[one.name].origin in _LEAKS and _fits_behind(items, one):
            folder = active[one.name].site
        if folder:
            found.setdefault(folder, []).append(one)
    return {folder: tuple(ones) for folder, ones in found.items()}


def _fits_behind(items: Iterable[Distribution], unmet: Unmet) -> bool:
    return any(
        item.name == unmet.name and item.shadowed and meets(item.version, unmet.specifier) and item.origin not in _LEAKS
        for item in items
    )


def _provided(case: CheckContext, absent: Iterable[Unmet]) -> dict[str, tuple[str, str]]:
    names = [item.name for item in case.facts[Distributions].items if not item.shadowed]
    found = {item.name: module_of(item.name, names) for item in absent}
    return {name: told for name, told in found.items() if told[0]}


def _intruders(case: CheckContext) -> frozenset[str]:
    if case.facts.get(InstalledFiles) is None:
        return frozenset()
    return frozenset(name for conflict in file_conflicts(case) for name in conflict.intruders)
