"""Which errors could not be seen before a repair, since what they are about certainly failed or was not known anyway.

Only what is proven counts: an error that is let through by mistake is swapped in.
"""

from collections.abc import Mapping, Sequence

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.duplicates import duplicates
from envdoctor.analysis.unmet import unmet_requirements
from envdoctor.model.finding import Finding
from envdoctor.model.fingerprint import Fingerprint
from envdoctor.model.frozen import frozen
from envdoctor.model.verdict import BREAKS_IMPORT, STOPS_PYTHON
from envdoctor.probes.loading.torch_build import TorchBuild
from envdoctor.probes.venv.distributions import Distribution, Distributions
from envdoctor.probes.venv.import_closure import Closure
from envdoctor.probes.venv.installed_files import FileFault, InstalledFiles
from envdoctor.stack.record_audit import RecordAudit

_OF_IMPORT_TORCH = ("ED301", "ED302", "ED303", "ED304", "ED308", "ED404")
_UNMET = "ED406"
_BUILD = "ED404"
_OF_METADATA = ("ED3", "ED4")
"""Whether files are as recorded, and whether Python starts, can be seen whatever else is wrong."""
_OF_A_PACKAGE = frozenset(
    ("ED305", "ED306", "ED307", "ED309", "ED310", "ED311", "ED312", "ED407", "ED408", "ED414", "ED415", "ED416")
)
"""What keeps one package from being imported, or from working once it is."""
_OF_FILES = ("ED202", "ED208")
"""They name a file by its end, which may be that of a torch outside: the faults are looked at instead."""
_READ_FIRST = ("torch/__init__.py", "torch/version.py")
"""Without either `import torch` raises, or gives a torch without anything in it."""


@frozen
class Hidden:
    """What certainly failed, or was not known, before a change."""

    torch: bool
    """`import torch` failed."""
    build: bool
    """What torch/version.py says of the build was known."""
    unstated: frozenset[str]
    """Distributions whose metadata is torn or there twice: what they require was not known."""
    unmet: frozenset[str]
    """What ED406 named before."""
    installed: Mapping[str, Distribution]
    """The venv's own."""
    paths: Mapping[str, tuple[str, ...]]
    """Distribution -> its paths, relative to the venv."""

    def revealed(self, new: Sequence[Finding], facts: Fingerprint, read: RecordAudit) -> tuple[Finding, ...]:
        """Return those of the new errors that could not show before, and so are nothing that the change has made.

        That is: an error of `import torch` where it failed; of a package whose own import runs `import torch`, then; of
        a distribution whose metadata was damaged; and a requirement that only such distributions state. An error that
        is about something that the change took away, or put there in another version, is the change's.

        facts, read: of the venv after the change.
        """
        if not (self.torch or self.unstated):
            return ()
        versions = {name: item.version for name, item in self.installed.items()}
        after = {name: item.version for name, item in read.packages.items()}
        changed = {name for name in versions.keys() | after.keys() if versions.get(name) != after.get(name)}
        touched = changed | self._files(changed, read)
        return tuple(item for item in new if self._reveals(item, facts, changed, touched))

    def _files(self, changed: set[str], read: RecordAudit) -> set[str]:
        """Return the names of the files of those distributions, then and now, and of all that are no longer there."""
        before, after = self.paths, read.graph.paths
        all_before, all_after = ({path for paths in owned.values() for path in paths} for owned in (before, after))
        theirs = {path for name in changed for owned in (before, after) for path in owned.get(name, ())}
        return {path.rpartition("/")[2] for path in (all_before - all_after) | theirs}

    def _reveals(self, finding: Finding, facts: Fingerprint, changed: set[str], touched: set[str]) -> bool:
        about = {part.strip() for listed in finding.subject.split(", ") for part in listed.split(" / ")}
        if not about.isdisjoint(touched):
            return False
        if STOPS_PYTHON in finding.causes or not finding.code.startswith(_OF_METADATA):
            return False
        if finding.code == _BUILD and self.build:
            return False
        if finding.code == _UNMET:
            return self._only_unstated_ask(about - self.unmet, facts, changed)
        if finding.code in _OF_IMPORT_TORCH or BREAKS_IMPORT in finding.causes:
            # Whose files are not known may have lost any of them to its other version.
            return self.torch and "torch" not in changed and changed.isdisjoint(self.unstated)
        of_import = self.torch and "torch" not in changed and finding.code in _OF_A_PACKAGE
        return all(name in self.unstated or (of_import and self._imports_torch(name)) for name in about)

    def _only_unstated_ask(self, names: set[str], facts: Fingerprint, changed: set[str]) -> bool:
        asking: dict[str, set[str]] = {name: set() for name in names}
        for item in unmet_requirements(CheckContext(facts=facts)):
            if item.name in asking:
                asking[item.name].add(item.requirer.name)
        return bool(names) and all(found and found <= self.unstated - changed for found in asking.values())

    def _imports_torch(self, name: str) -> bool:
        """Tell whether an import of the package of that name certainly runs `import torch`."""
        item = self.installed.get(name)
        if item is None:
            return False
        reached = Closure(site=item.site, package=name.replace("-", "_"), exact=True).follow().reached
        return any(one.module.partition(".")[0] == "torch" for imports in reached.values() for one in imports)


def hidden(case: CheckContext, before: Sequence[Finding], read: RecordAudit) -> Hidden:
    """Return what a change of this venv may reveal; `before` are its errors."""
    twice, build = duplicates(case), case.facts.get(TorchBuild)
    return Hidden(
        torch=_torch_fails(case, before),
        build=build is not None and bool(build.version),
        unstated=frozenset((*read.torn, *twice)),
        unmet=frozenset(name for item in before if item.code == _UNMET for name in item.subject.split(", ")),
        installed={**read.packages, **twice},
        paths=read.graph.paths,
    )


def _torch_fails(case: CheckContext, before: Sequence[Finding]) -> bool:
    if any(BREAKS_IMPORT in finding.causes and finding.code not in _OF_FILES for finding in before):
        return True
    files, installed = case.facts.get(InstalledFiles), case.facts.get(Distributions)
    torch = installed.active("torch") if installed else None
    if files is None or torch is None or torch.origin != "site-packages":
        return False
    first = [f"{torch.site}/{path}" for path in _READ_FIRST]
    return any(
        fault.owner == "torch" and f"{case.facts.target}/{fault.path}" in first and _stops(fault)
        for fault in files.faults
    )


def _stops(fault: FileFault) -> bool:
    """Tell a fault with which the file cannot be imported; source that can be parsed may be an edit, and work."""
    if fault.published_at or fault.compiled:
        return False
    return fault.kind in ("missing", "not a file", "unreadable") or (
        fault.kind == "resized" and (not fault.size or fault.unparsable)
    )
