"""Two metadata folders of one distribution.

What it finds:
    A distribution name with several dist-info folders on sys.path: in one folder (left by an interrupted upgrade), or
    in several (a leaked PYTHONPATH or user site in front of the venv).

Why it matters:
    Which one `importlib.metadata` takes depends on directory order; a version check can read None.

Example:
    torch-1.13.1+cu116.dist-info is complete, torch-1.12.1+cu116.dist-info holds one empty file (cpython issue 100666).

Fix:
    Force-reinstall the version that is meant, so that exactly one remains; a folder without METADATA and RECORD owns
    nothing and may be deleted.
"""

from collections.abc import Iterator

from envdoctor.checks.case import Case
from envdoctor.checks.remedies import reinstall_command, restore_or
from envdoctor.model.finding import Finding
from envdoctor.probes.distributions import Distribution, Distributions
from envdoctor.probes.torch_build import TorchBuild

CODE = "ED405"
NAME = "duplicate-distribution"
AREA = "Distributions"


def run(case: Case) -> Iterator[Finding]:
    """Yield one finding for each name that stands more than once."""
    by_name: dict[str, list[Distribution]] = {}
    for item in case.facts[Distributions].items:
        by_name.setdefault(item.name, []).append(item)
    for name, items in sorted(by_name.items()):
        if len(items) > 1:
            yield _finding(case, name, items)


def _finding(case: Case, name: str, items: list[Distribution]) -> Finding:
    active = next(item for item in items if not item.shadowed)
    same_folder = len({item.site for item in items}) == 1
    build = case.facts.get(TorchBuild)
    code_says = (f"torch/version.py says {build.version}",) if name == "torch" and build and build.present else ()
    return Finding(
        code=CODE,
        name=NAME,
        severity="error",
        confidence="high",
        title=f"{name} has {len(items)} metadata folders"
        + ("" if same_folder else f"; the one in {active.site} stands in front"),
        subject=name,
        evidence=(*(_line(item) for item in items), *code_says),
        remediation=restore_or(
            case,
            f"force-reinstall {name} {active.version}, so that one remains"
            if same_folder
            else f"keep {active.origin} out of this environment (unset PYTHONPATH, set PYTHONNOUSERSITE=1)",
            [reinstall_command(case, [(name, active.version)])] if same_folder else [],
        ),
        causes=(f"dist:{name}",),
    )


def _line(item: Distribution) -> str:
    parts = [part for part, there in (("METADATA", item.has_metadata), ("RECORD", item.has_record)) if there]
    holds = " and ".join(parts) or "neither METADATA nor RECORD"
    return f"{item.site}/{item.folder} ({item.origin}): version {item.version or 'none'}, holds {holds}"
