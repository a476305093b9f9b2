"""A name that another package does not have.

What it finds:
    Among the packages of the Hugging Face stack, torchtune and torchao, an unguarded `from A import b` that an import
    of the package certainly runs, where the installed A has no such name. Only modules are judged whose text cannot
    make names by other means (no `__getattr__`, no `import *`, no lazy module), so what is reported is certain, and
    much is not looked at.

Why it matters:
    Their requirements are wider than what they import: `accelerate>=0.21.0` is met, and `import peft` raises
    `cannot import name 'clear_device_cache'`.

Example:
    peft 0.15.0 beside accelerate 0.31.0.

Fix:
    Another version of either: usually a newer one of the package that lacks the name, where it was not dropped.
"""

from collections.abc import Iterator

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.version_ranges import another_version, disagreement
from envdoctor.catalog.removed_modules import HELD_BY_OLDER
from envdoctor.model.finding import Finding, Remediation
from envdoctor.probes.venv.package_imports import GoneName, PackageImports

CODE = "ED416"
NAME = "missing-name"
AREA = "Distributions"
_SHOWN = 6


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for each pair of packages."""
    pairs: dict[tuple[str, str], list[GoneName]] = {}
    for item in case.facts[PackageImports].names:
        pairs.setdefault((item.owner, item.provider), []).append(item)
    for items in pairs.values():
        yield _finding(case, items)


def _finding(case: CheckContext, items: list[GoneName]) -> Finding:
    first = items[0]
    what = f"{first.name} from {first.module}" if first.name else first.module
    more = f" and {len(items) - 1} more" if len(items) > 1 else ""
    package = first.owner.replace("-", "_")
    return Finding(
        code=CODE,
        name=NAME,
        severity="error",
        confidence="high",
        title=f"{first.owner} {first.owner_version} imports {what}{more}, which {first.provider} "
        f"{first.provider_version} does not have",
        subject=f"{first.owner} / {first.provider}",
        evidence=(
            *(f"{item.path}:{item.line}: {f'{item.module}.{item.name}'.rstrip('.')}" for item in items[:_SHOWN]),
            *((f"and {len(items) - _SHOWN} more",) if len(items) > _SHOWN else ()),
            f"`import {package}` runs that line: it raises ImportError",
        ),
        remediation=_remedy(case, first),
        symptom_of=(
            f"version:{first.provider}",
            f"version:{first.owner}",
            f"shadow:{first.provider}",
            f"requirement:{first.provider}",
        ),
    )


def _remedy(case: CheckContext, first: GoneName) -> Remediation:
    clauses = [f">{first.provider_version.partition('+')[0]}"]
    text = f"install a newer {first.provider}, or an older {first.owner}"
    if older := HELD_BY_OLDER.get(first.module):
        text = f"install {first.provider}{older}, or a version of {first.owner} that does without it"
        return another_version(case, first.provider, first.provider_version, [older], text)
    if disagreement(case, {first.provider: clauses}):
        # Somebody holds the provider back: then it is the importer that is too new.
        return another_version(
            case, first.owner, first.owner_version, [f"<{first.owner_version.partition('+')[0]}"], text
        )
    return another_version(case, first.provider, first.provider_version, clauses, text)
