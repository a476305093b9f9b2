"""A distribution that is not in the lock.

What it finds:
    Installed distributions that the lock does not pin, each classed: overwriting (its files took the place of a locked
    distribution's), load-bearing (the loader takes a library from it), shadowing (it shadows a locked
    distribution of the same name or module), or harmless.

Why it matters:
    "Remove what is not locked" is what broke the incident's venv: uninstalling an overwriting distribution deletes
    the files of the one it overwrote. So each comes with what its removal would take along.

Example:
    `nvidia-nccl-cu13` is overwriting: removing it deletes nvidia/nccl/lib/libnccl.so.2, which
    nvidia-nccl-cu12 owns too.

Fix:
    `envdoctor restore --profile NAME` builds the locked set beside this one; nothing is removed from it in place.
"""

from collections.abc import Iterator

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.remedies import restore_or
from envdoctor.model.finding import Finding
from envdoctor.model.frozen import frozen
from envdoctor.model.wording import counted
from envdoctor.probes.loading.libraries import Libraries, Provider
from envdoctor.probes.venv.contested_paths import Contested
from envdoctor.probes.venv.distributions import Distribution, Distributions
from envdoctor.probes.venv.installed_files import InstalledFiles

CODE = "ED403"
NAME = "extra-distribution"
AREA = "Distributions"
# Tools a venv carries without any training code asking for them.
_SEEDS = frozenset({"pip", "setuptools", "wheel", "uv"})
_CLASSES = ("overwriting", "load-bearing", "shadowing", "harmless")


@frozen
class _Extra:
    item: Distribution
    kind: str
    consequence: str
    """What its removal would take along."""


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for each class that occurs."""
    locked = case.locked()
    extras = [
        _classify(case, item)
        for item in case.facts[Distributions].items
        if item.name not in locked and item.name not in _SEEDS and not item.shadowed
    ]
    for kind in _CLASSES:
        of_kind = [extra for extra in extras if extra.kind == kind]
        if of_kind:
            yield _finding(case, kind, of_kind)


def _classify(case: CheckContext, item: Distribution) -> _Extra:
    contested = [path for path in _contested(case) if item.name in {claim.owner for claim in path.claims}]
    if contested:
        others = sorted({claim.owner for path in contested for claim in path.claims} - {item.name})
        return _Extra(
            item=item,
            kind="overwriting",
            consequence=f"its removal deletes {counted(len(contested), 'file')} also owned by {', '.join(others)}",
        )
    provided = [provider for provider in _providers(case) if provider.owner == item.name]
    if provided:
        return _Extra(
            item=item,
            kind="load-bearing",
            consequence=f"its removal takes {', '.join(provider.soname for provider in provided)} away from torch",
        )
    if item.origin != "site-packages":
        return _Extra(item=item, kind="shadowing", consequence=f"it comes from {item.site} ({item.origin})")
    return _Extra(item=item, kind="harmless", consequence="no locked distribution shares a file or a library with it")


def _contested(case: CheckContext) -> tuple[Contested, ...]:
    files = case.facts.get(InstalledFiles)
    return files.contested if files else ()


def _providers(case: CheckContext) -> tuple[Provider, ...]:
    libraries = case.facts.get(Libraries)
    return libraries.providers if libraries else ()


def _finding(case: CheckContext, kind: str, extras: list[_Extra]) -> Finding:
    names = ", ".join(extra.item.name for extra in extras)
    return Finding(
        code=CODE,
        name=NAME,
        severity="note" if kind == "harmless" else "warning",
        confidence="high",
        title=f"{counted(len(extras), 'distribution', 'is', 'are')} not in the lock ({kind})",
        subject=names,
        evidence=tuple(_lines(extras)),
        remediation=restore_or(
            case,
            "nothing has to be removed: these packages do no harm"
            if kind == "harmless"
            else "do not uninstall it by itself; rebuild the locked set beside this one",
            [],
        ),
        symptom_of=("another-stack",),
    )


def _lines(extras: list[_Extra]) -> Iterator[str]:
    if extras[0].kind == "harmless":
        yield ", ".join(f"{extra.item.name} {extra.item.version}" for extra in extras)
        yield extras[0].consequence.replace(" it", " them") if len(extras) > 1 else extras[0].consequence
        return
    for extra in extras:
        yield f"{extra.item.name} {extra.item.version}: {extra.consequence}"
