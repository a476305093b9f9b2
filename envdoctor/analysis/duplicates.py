"""Several metadata folders of one distribution: which one is meant."""

from collections.abc import Sequence

from envdoctor.analysis.context import CheckContext
from envdoctor.probes.loading.torch_build import TorchBuild
from envdoctor.probes.venv.distributions import Distribution, Distributions
from envdoctor.probes.venv.installed_files import InstalledFiles

_FEW = 10
"""Of a version that is there not more than one file in so many is missing or changed."""


def duplicates(case: CheckContext) -> dict[str, Distribution]:
    """Return name -> the one that is meant, of what has several metadata folders in one folder of the environment."""
    by_name: dict[tuple[str, str], list[Distribution]] = {}
    for item in case.facts[Distributions].items:
        if item.origin == "site-packages" and item.folder.endswith(".dist-info"):
            by_name.setdefault((item.site, item.name), []).append(item)
    return {name: meant_of(case, items) for (_, name), items in by_name.items() if len(items) > 1}


def meant_of(case: CheckContext, items: Sequence[Distribution]) -> Distribution:
    """Return the most complete one."""
    return min(items, key=lambda item: _doubt(case, item))


def equally_meant(case: CheckContext, items: Sequence[Distribution]) -> list[str]:
    """Return the versions of those of which nothing tells which one is meant; none where something does."""
    least = min(_doubt(case, item) for item in items)
    versions = dict.fromkeys(item.version for item in items if _doubt(case, item) == least)
    return list(versions) if len(versions) > 1 else []


def _doubt(case: CheckContext, item: Distribution) -> tuple[bool, bool, bool, bool, int, int, bool]:
    """Rank by faults: no METADATA, not the version of lock or code, few files as it records them, another's RECORD.

    Before the number of files comes at how many paths of both the bytes may be its own: a RECORD with more files of
    metadata is not meant the more.

    A version that another one was unpacked over has many files that are as its RECORD says: those that both have.
    """
    pin = case.pins().get(item.name)
    build = case.facts.get(TorchBuild)
    stated = build.version if build and item.name == "torch" else ""
    files = case.facts.get(InstalledFiles)
    owners = files.owners if files else ()
    own = [owner for owner in owners if (owner.name, owner.version) == (item.name, item.version)]
    unfit = sum(owner.missing + owner.resized for owner in own)
    return (
        not (item.has_metadata and item.has_record),
        pin is not None and pin.version != item.version,
        bool(stated) and stated.partition("+")[0] != item.version.partition("+")[0],
        unfit * _FEW > sum(owner.files for owner in own),
        -_own_bytes(files, item),
        -sum(owner.files - owner.missing - owner.resized for owner in own),
        files is not None and f"{item.site}/{item.folder}" in files.misnamed,
    )


def _own_bytes(files: InstalledFiles | None, item: Distribution) -> int:
    """Return at how many paths, of which several RECORDs state other bytes, is what this version's may state."""
    if files is None:
        return 0
    own = (item.name, item.version)
    lost = {fault.path for fault in files.faults if (fault.owner, fault.of_version) == own}
    return sum(
        one.path not in lost and any((claim.owner, claim.version) == own for claim in one.claims)
        for one in files.contested
    )
