"""Which errors could not be seen before a repair, since what they are about could not be imported anyway."""

from collections.abc import Collection, Iterable, Iterator, Sequence

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.duplicates import duplicates
from envdoctor.model.finding import Finding
from envdoctor.model.fingerprint import Fingerprint
from envdoctor.model.frozen import frozen
from envdoctor.model.pattern import pattern
from envdoctor.model.verdict import BREAKS_IMPORT
from envdoctor.probes.venv.distributions import Distribution, Distributions
from envdoctor.probes.venv.installed_files import FileFault, InstalledFiles
from envdoctor.standards.need import parse_need

_CODE_FILE = pattern(r"\.(?:py|so)(?:\.\d+)*$")
_OBJECT = pattern(r"\.so(?:\.\d+)*$")
_OF_IMPORT_TORCH = ("ED301", "ED302", "ED303", "ED304", "ED308", "ED404")


@frozen
class Broken:
    """What certainly could not be imported as it was installed."""

    names: frozenset[str]
    """Distributions with code that is missing, empty or cannot be read, or with metadata of `unstated`."""
    unstated: frozenset[str]
    """Distributions whose metadata is torn or there twice: what they require was not known."""
    torch: bool
    """`import torch` failed."""

    def reveals(self, finding: Finding, facts: Fingerprint, removed: Collection[str]) -> bool:
        """Tell whether an error that is new could not show before, and so is nothing that the change has made.

        Everything that it says fails has failed before: torch itself, or a distribution that is broken or requires a
        broken one. `facts` are those after the change; `removed` the distributions that it took away, and their files.
        """
        if not {finding.subject, *finding.subject.split(", ")}.isdisjoint(removed):
            return False
        if finding.code == "ED406":
            # It is new, so only these can be what asks for it.
            return bool(self.unstated)
        if finding.code in _OF_IMPORT_TORCH or BREAKS_IMPORT in finding.causes:
            return self.torch
        installed = facts.get(Distributions)
        items = {item.name: item for item in installed.items if not item.shadowed} if installed else {}
        about = [part.strip() for name in finding.subject.split(", ") for part in name.split(" / ")]
        return all(name in items and self._needs_broken(name, items) for name in about)

    def _needs_broken(self, name: str, items: dict[str, Distribution]) -> bool:
        seen, pending = {name}, [name]
        while pending:
            at = pending.pop()
            if at in self.names:
                return True
            found = set(_required(items[at])) - seen if at in items else set()
            seen |= found
            pending += found
        return False


def broken(case: CheckContext, before: Sequence[Finding], torn: Iterable[str]) -> Broken:
    """Return what is broken; `torn` are distributions whose metadata is damaged."""
    files = case.facts.get(InstalledFiles)
    names = frozenset(fault.owner for fault in files.faults if _stops(fault)) if files else frozenset[str]()
    unstated = frozenset((*torn, *duplicates(case)))
    torch = "torch" in names or any(BREAKS_IMPORT in finding.causes for finding in before)
    return Broken(names=names | unstated | ({"torch"} if torch else set()), unstated=unstated, torch=torch)


def _stops(fault: FileFault) -> bool:
    """Tell a fault with which the file cannot be imported; source that can be parsed may be an edit, and work."""
    if not _CODE_FILE.search(fault.path):
        return False
    return fault.kind in ("missing", "not a file", "unreadable") or (
        fault.kind == "resized" and (not fault.size or fault.unparsable or bool(_OBJECT.search(fault.path)))
    )


def _required(item: Distribution) -> Iterator[str]:
    for line in item.requires:
        if "extra ==" not in line and (need := parse_need(line)) is not None:
            yield need.name
