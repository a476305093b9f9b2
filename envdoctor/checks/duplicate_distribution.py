"""Two metadata folders of one distribution.

What it finds:
    A distribution name with several metadata folders: in one folder of sys.path (left by an interrupted upgrade), or in
    several with a leaked one in front. A venv in front of its base or of the user site is as it should be, and so is an
    editable install beside the egg-info of its source.

Why it matters:
    Which one `importlib.metadata` takes depends on directory order; a version check can read None.

Example:
    torch-1.13.1+cu116.dist-info is complete, torch-1.12.1+cu116.dist-info holds one empty file (cpython issue 100666).

Fix:
    A folder without METADATA and RECORD owns nothing and may be deleted. Of two that hold something neither may be:
    force-reinstall the version that is meant. One without RECORD, or with the RECORD of another version, stays even
    then, since no installer can uninstall it, and is deleted after that.
"""

import shlex
from collections.abc import Iterator

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.damage import named_by_metadata
from envdoctor.analysis.duplicates import equally_meant, meant_of
from envdoctor.analysis.remedies import reinstall_command, restore_or
from envdoctor.analysis.variable_commands import leave_out_command
from envdoctor.model.finding import Finding, Remediation
from envdoctor.probes.loading.torch_build import TorchBuild
from envdoctor.probes.venv.distributions import Distribution, Distributions
from envdoctor.probes.venv.installed_files import InstalledFiles

CODE = "ED405"
NAME = "duplicate-distribution"
AREA = "Distributions"


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for each name that stands more than once."""
    by_name: dict[str, list[Distribution]] = {}
    for item in case.facts[Distributions].items:
        by_name.setdefault(item.name, []).append(item)
    for name, items in sorted(by_name.items()):
        meant = _without_expected(items)
        if len(meant) > 1:
            yield _finding(case, name, meant)


def _without_expected(items: list[Distribution]) -> list[Distribution]:
    front = items[0]
    items = [item for item in items if item is front or not item.site.endswith("/lib/python3/dist-packages")]
    # Neither is this venv's: Python takes the user's, and what is installed here is in front of both.
    if front.origin == "user site":
        items = [item for item in items if item.origin != "base site-packages"]
    if front.origin == "site-packages":
        items = [item for item in items if item.site == front.site or item.origin == "site-packages"]
    # Debian ships an egg-info beside the dist-info of the same version; an editable source has one of its own.
    whole = {(item.site, item.version) for item in items if item.folder.endswith(".dist-info")}
    editable = any(item.editable for item in items)
    return [
        item
        for item in items
        if item.folder.endswith(".dist-info") or not (editable or (item.site, item.version) in whole)
    ]


def _finding(case: CheckContext, name: str, items: list[Distribution]) -> Finding:
    active = next((item for item in items if not item.shadowed), items[0])
    same_folder = len({item.site for item in items}) == 1
    build = case.facts.get(TorchBuild)
    code_says = (f"torch/version.py says {build.version}",) if name == "torch" and build and build.present else ()
    return Finding(
        code=CODE,
        name=NAME,
        # Python takes the user site's in any case; that it differs is told by what is imported from there.
        severity="warning" if not same_folder and active.origin == "user site" and name != "torch" else "error",
        confidence="high",
        title=f"{name} has {len(items)} metadata folders"
        + ("" if same_folder else f"; the one in {active.site} comes first"),
        subject=name,
        evidence=(*(_line(item) for item in items), *code_says),
        remediation=_one_remains(case, items) if same_folder else _keep_out(case, active),
        causes=(f"dist:{name}",),
        symptom_of=(f"shadow:{name}", f"shadow-folder:{active.site}"),
    )


def _keep_out(case: CheckContext, front: Distribution) -> Remediation:
    if front.origin in ("PYTHONPATH", "user site"):
        command = leave_out_command(case, front.origin, front.site)
        return Remediation(text=f"Keep {front.origin} out of this environment", commands=(command,), safe=True)
    return restore_or(case, f"keep {front.site} out of this environment", [])


def _one_remains(case: CheckContext, items: list[Distribution]) -> Remediation:
    if versions := equally_meant(case, items):
        name = items[0].name
        choices = " or ".join(f"`{reinstall_command(case, [(name, version)])}`" for version in versions)
        text = f"nothing tells which version is the right one: force-reinstall the one that you want, by {choices}"
        return restore_or(case, text, [])
    active = meant_of(case, items)
    # That the reinstall makes a folder of the same name is one more reason to keep what is rightly named.
    kept = [item for item in items if (item is active and named_by_metadata(item)) or _uninstallable(case, item)]
    stale = [item for item in items if item not in kept]
    remove = "rm -r " + " ".join(shlex.quote(f"{item.site}/{item.folder}") for item in stale)
    if len(stale) == len(items) - 1 and not any(item.has_metadata for item in stale):
        text = "delete the folder that owns nothing; the other one is the installed distribution"
        return restore_or(case, text, [remove])
    return restore_or(
        case,
        f"force-reinstall {active.name} {active.version}, so that one remains; deleting one by hand would leave its "
        "files behind",
        [reinstall_command(case, [(active.name, active.version)]), *([remove] if stale else [])],
    )


def _uninstallable(case: CheckContext, item: Distribution) -> bool:
    """Tell whether an uninstall takes this metadata folder away: its RECORD has to list it."""
    files = case.facts.get(InstalledFiles)
    return item.has_record and not (files and f"{item.site}/{item.folder}" in files.misnamed)


def _line(item: Distribution) -> str:
    parts = [part for part, there in (("METADATA", item.has_metadata), ("RECORD", item.has_record)) if there]
    holds = " and ".join(parts) or "neither METADATA nor RECORD"
    return f"{item.site}/{item.folder} ({item.origin}): version {item.version or 'none'}, holds {holds}"
