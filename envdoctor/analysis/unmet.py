"""Which declared requirements of the installed distributions are not met, extras followed to the end."""

from collections import deque
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache

from envdoctor.analysis.context import CheckContext
from envdoctor.model.frozen import frozen
from envdoctor.probes.venv.distributions import Distribution, Distributions
from envdoctor.probes.venv.interpreter import Interpreter
from envdoctor.standards.need import Need, extras_of, holds, meets, parse_need

# What a venv sees of other places is not this environment's to keep consistent.
_FOREIGN = frozenset({"base site-packages", "user site", "standard library"})


@frozen
class Unmet:
    """One requirement that is not met."""

    requirer: Distribution
    extra: str
    """The requirer's extra that asks for it ("cublas"); empty when it always does."""
    name: str
    specifier: str
    installed: str
    """The version that does not fit; empty when nothing is installed."""
    wanted_extras: tuple[str, ...] = ()
    """Extras that are asked of the required one, normalized."""

    @property
    def text(self) -> str:
        """Return "cuda-toolkit[cublas] 12.8.1 requires nvidia-cublas-cu12==12.8.4.1"."""
        extra = f"[{self.extra}]" if self.extra else ""
        return f"{self.requirer.name}{extra} {self.requirer.version} requires {self.name}{self.specifier}"

    @property
    def pin(self) -> str:
        """Return the exact version asked for, or empty."""
        exact = self.specifier.removeprefix("==").strip()
        return exact if self.specifier.startswith("==") and "," not in exact and "*" not in exact else ""


def unmet_requirements(case: CheckContext) -> list[Unmet]:
    """Return every unmet requirement, in the order of the distributions.

    Extras are followed: `torch` asks for `cuda-toolkit[cublas]`, so what cuda-toolkit wants for `cublas` is asked too,
    which neither `pip check` nor `uv pip check` does.
    """
    items = {item.name: item for item in case.facts[Distributions].items if not item.shadowed}
    return unmet_among(items, case.facts[Interpreter].markers())


def unmet_among(items: Mapping[str, Distribution], environment: Mapping[str, str]) -> list[Unmet]:
    """Return every unmet requirement of these distributions, normalized name -> distribution, on that interpreter."""
    plain: dict[str, bool] = {}
    asked: dict[str, set[str]] = {name: set() for name, item in items.items() if item.origin not in _FOREIGN}
    waiting = deque(asked)
    found: dict[tuple[str, str, str], Unmet] = {}
    while waiting:
        name = waiting.popleft()
        for line in items[name].requires:
            need = _applicable(line, environment, asked[name], plain)
            if need is None:
                continue
            present = items.get(need.name)
            if present is None or not meets(present.version, need.specifier):
                unmet = _unmet(items[name], need, present, environment, asked[name])
                found.setdefault((name, need.name, need.specifier), unmet)
            elif need.name in asked and not asked[need.name].issuperset(need.extras):
                asked[need.name].update(need.extras)
                waiting.append(need.name)
    for unmet in _of_families(items, asked):
        found.setdefault((unmet.requirer.name, unmet.name, unmet.specifier), unmet)
    return list(found.values())


def _of_families(items: Mapping[str, Distribution], asked: Mapping[str, set[str]]) -> Iterator[Unmet]:
    """Yield the exact pins of extras that nobody asks for, where the pinned one is a part of the requirer's own family.

    transformer-engine[pytorch] pins transformer-engine-torch: a user with both typed that extra, and no metadata tells.
    """
    for name in asked:
        for line in items[name].requires:
            if line[: len(name)].lower().replace("_", "-") != name or "==" not in line or "extra ==" not in line:
                continue
            need = _parsed(line)
            if need is None or not need.name.startswith(f"{name}-") or not need.specifier.startswith("=="):
                continue
            present = items.get(need.name)
            if present is not None and not meets(present.version, need.specifier):
                extra = next(iter(extras_of(need.marker)), "")
                yield Unmet(
                    requirer=items[name],
                    extra=extra,
                    name=need.name,
                    specifier=need.specifier,
                    installed=present.version,
                )


def asked_of(case: CheckContext, names: Collection[str]) -> dict[str, list[tuple[Distribution, str]]]:
    """Return name -> (requirer, specifier) of every distribution that always requires it, in their order."""
    environment = case.facts[Interpreter].markers()
    found: dict[str, list[tuple[Distribution, str]]] = {name: [] for name in names}
    for item, need in _asking(case, names, of_extras=False):
        if holds(need.marker, environment):
            found[need.name].append((item, need.specifier))
    return found


def wanted_by_extras(case: CheckContext, names: Collection[str]) -> dict[str, str]:
    """Return name -> "jax[cuda12]", the first extra of a distribution not among `names` that requires it.

    Whether somebody typed that extra when it was installed stands nowhere.
    """
    environment = case.facts[Interpreter].markers()
    found: dict[str, str] = {}
    for item, need in _asking(case, names, of_extras=True):
        if item.name in names or need.name in found:
            continue
        extra = next((one for one in extras_of(need.marker) if holds(need.marker, environment, [one])), "")
        if extra:
            found[need.name] = f"{item.name}[{extra}]"
    return found


def required_by_others(case: CheckContext, names: Collection[str]) -> dict[str, str]:
    """Return name -> the first distribution, itself not among `names`, that requires it without any extra."""
    asked = asked_of(case, names)
    first = {name: next((item for item, _ in found if item.name not in names), None) for name, found in asked.items()}
    return {name: item.name for name, item in first.items() if item is not None}


def _asking(case: CheckContext, names: Collection[str], *, of_extras: bool) -> Iterator[tuple[Distribution, Need]]:
    """Yield each line that asks for one of these, with or without an extra, and whose it is; markers not looked at."""
    for item in case.facts[Distributions].items:
        if item.shadowed or item.origin in _FOREIGN:
            continue
        for line in item.requires:
            need = _parsed(line) if ("extra ==" in line) == of_extras else None
            if need is not None and need.name in names:
                yield item, need


def _applicable(line: str, environment: Mapping[str, str], extras: set[str], plain: dict[str, bool]) -> Need | None:
    """Return the requirement if it holds; `plain` remembers markers without an extra, which many lines share."""
    # Most lines of a large METADATA wait for an extra that nobody asks for.
    if not extras and "extra ==" in line:
        return None
    need = _parsed(line)
    if need is None:
        return None
    if "extra" in need.marker:
        return need if holds(need.marker, environment, extras) else None
    if need.marker not in plain:
        plain[need.marker] = holds(need.marker, environment)
    return need if plain[need.marker] else None


@lru_cache(maxsize=4096)
def _parsed(line: str) -> Need | None:
    return parse_need(line)


def _unmet(
    requirer: Distribution,
    need: Need,
    present: Distribution | None,
    environment: Mapping[str, str],
    extras: set[str],
) -> Unmet:
    always = holds(need.marker, environment)
    extra = "" if always else next((one for one in sorted(extras) if holds(need.marker, environment, [one])), "")
    return Unmet(
        requirer=requirer,
        extra=extra,
        name=need.name,
        specifier=need.specifier,
        installed=present.version if present else "",
        wanted_extras=need.extras,
    )
