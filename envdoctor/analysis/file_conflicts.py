"""Paths with several owners, gathered by the set of their owners."""

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.damage import site_relative
from envdoctor.analysis.unmet import required_by_others
from envdoctor.analysis.wanted_owner import wanted_owner
from envdoctor.catalog.shared_paths import MAINTAINED, shared_module
from envdoctor.model.frozen import frozen, replace
from envdoctor.probes.venv.contested_paths import Contested
from envdoctor.probes.venv.installed_files import InstalledFiles
from envdoctor.probes.venv.record_rows import CODE_FILE

_BESIDE = frozenset(
    {"test", "tests", "doc", "docs", "example", "examples", "benchmark", "benchmarks", "scripts", "share"}
    | {"notebooks", "tutorials"}
)
_SPHINX = "sphinx/source/"
"""The sources of a project's documentation, as botorch and ax-platform pack them; Sphinx itself has no such folder."""


@frozen
class FileConflict:
    """All contested paths of one set of owners."""

    module: str
    """The Python module that they all are (`pynvml`); empty where they only share files, as CUDA's libraries do."""
    owners: tuple[tuple[str, str], ...]
    paths: tuple[Contested, ...]
    wanted: str
    told_by: str
    required: tuple[tuple[str, str], ...] = ()
    """(unwanted owner, distribution that requires it) where one does: its uninstall would break that one."""

    @property
    def unused(self) -> bool:
        """Tell a stray file beside the packages (a build's helper packed by mistake) that no code of theirs imports."""
        known = shared_module([name for name, _ in self.owners])
        return not known and all("/" not in site_relative(at.path) and not at.imported_by for at in self.paths)

    @property
    def unwanted(self) -> tuple[str, ...]:
        """Return the owners that are not meant."""
        return tuple(name for name, _ in self.owners if name != self.wanted)

    @property
    def intruders(self) -> tuple[str, ...]:
        """Return the unwanted owners that nobody requires."""
        return tuple(name for name in self.unwanted if name not in dict(self.required)) if self.wanted else ()

    @property
    def foreign(self) -> tuple[Contested, ...]:
        """Return the paths that hold bytes of none but the unwanted, or of nobody."""
        return tuple(item for item in self.paths if self.wanted not in item.on_disk and item.told_by != "not told")

    @property
    def spoiled(self) -> tuple[Contested, ...]:
        """Return the code that holds bytes of none of the owners: whichever is meant, the file is damaged."""
        told = (at for at in self.paths if not at.on_disk and at.told_by not in ("missing", "not told"))
        return tuple(at for at in told if CODE_FILE.search(at.path))

    def version(self, name: str) -> str:
        """Return the version of an owner."""
        return dict(self.owners)[name]


def file_conflicts(case: CheckContext) -> list[FileConflict]:
    """Return one conflict for each set of owners whose RECORDs disagree on some bytes."""
    groups: dict[tuple[tuple[str, str], ...], list[Contested]] = {}
    for item in case.facts[InstalledFiles].contested:
        if item.namespace or _incidental(site_relative(item.path)):
            continue
        owners = tuple(sorted({(claim.owner, claim.version) for claim in item.claims}))
        if len({name for name, _ in owners}) > 1:
            groups.setdefault(owners, []).append(item)
    found = []
    for owners, paths in sorted(groups.items()):
        module = _module(owners, paths)
        wanted, told_by = wanted_owner(case, owners)
        if not wanted and MAINTAINED.get(module) in dict(owners):
            wanted, told_by = MAINTAINED[module], "the only one of them that is maintained"
        found.append(FileConflict(module=module, owners=owners, paths=tuple(paths), wanted=wanted, told_by=told_by))
    # Of a conflict that nothing decides both owners stay, and what they require does.
    unwanted = {name for conflict in found if conflict.wanted for name in conflict.unwanted}
    required = required_by_others(case, unwanted) if unwanted else {}
    # Where nothing tells which one belongs here, one owner may require the other: ax-platform requires botorch.
    for name in {name for contest in found if not contest.wanted for name in contest.unwanted}:
        required = required_by_others(case, {name}) | required
    return [
        replace(conflict, required=tuple((name, required[name]) for name in conflict.unwanted if name in required))
        for conflict in found
    ]


def _incidental(path: str) -> bool:
    # Wheels that pack their `tests`, documentation or README beside their package by mistake; nobody imports those.
    top, _, rest = path.partition("/")
    return (
        top in _BESIDE or path.startswith(_SPHINX) if rest else top.endswith((".md", ".txt", ".rst")) or "." not in top
    )


def _module(owners: tuple[tuple[str, str], ...], paths: list[Contested]) -> str:
    if known := shared_module([name for name, _ in owners]):
        return known
    for item in paths:
        parts = site_relative(item.path).split("/")
        if len(parts) == 1 and parts[0].endswith(".py"):
            return parts[0].removesuffix(".py")
        if len(parts) == 2 and parts[1] == "__init__.py":
            return parts[0]
    return ""
