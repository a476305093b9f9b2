"""What is really on disk in a venv: each distribution, its files with their hashes, and what no distribution owns."""

import hashlib
import os
from collections.abc import Iterator, Mapping

from envdoctor.compare.identity import identity_of
from envdoctor.facts.context import Reading
from envdoctor.facts.regular_file import open_regular
from envdoctor.model.digest import digest
from envdoctor.model.fingerprint import Fingerprint
from envdoctor.model.frozen import frozen
from envdoctor.probes.loading.torch_build import TorchBuild
from envdoctor.probes.venv.distributions import Distribution, Distributions
from envdoctor.probes.venv.file_digests import usable
from envdoctor.probes.venv.installed_files import InstalledFiles
from envdoctor.probes.venv.interpreter import Interpreter
from envdoctor.probes.venv.record_rows import is_bytecode
from envdoctor.probes.venv.records import index
from envdoctor.stack.verify import verify
from envdoctor.standards.names import normalized
from envdoctor.standards.recorded import hex_of
from envdoctor.standards.requirements import applies, parse_requirement


@frozen
class InventoryFile:
    """A file of a distribution."""

    path: str
    """Relative to the venv."""
    sha256: str
    """Of the bytes on disk, in hex; empty for one that is missing or cannot be read."""
    problem: str = ""
    """How it differs from its RECORD ("does not have the recorded hash"); empty for one that is as recorded."""


@frozen
class InventoryItem:
    """A distribution, as it is on disk."""

    name: str
    version: str
    folder: str
    """Its metadata's folder, relative to the venv."""
    shadowed: bool
    """Another distribution of this name is the one that Python finds."""
    direct_url: str
    """Where it was installed from, without login; empty for an index."""
    editable: bool
    record: InventoryFile | None
    """RECORD itself, which states the hash of every other file; None without one."""
    files: tuple[InventoryFile, ...]
    """Every other file but bytecode."""
    conflicts: tuple[str, ...]
    """"PATH, also of OTHER; the bytes are those of OWNER" for each path that another distribution owns too."""
    requires: tuple[str, ...]
    """Normalized names of what it requires here, without extras."""

    @property
    def faults(self) -> tuple[InventoryFile, ...]:
        """The files that are not as RECORD says."""
        return tuple(file for file in self.files if file.problem)


# Of no distribution, or another than its RECORD says: the largest files of wheels have 2 GB.
_LARGEST = 16 << 30


@frozen
class Inventory:
    """A venv, as it is on disk."""

    target: str
    taken_at: str
    python: str
    torch: str
    """The build as torch/version.py states it; empty without torch."""
    digest: str
    """Of the stack, as `envdoctor fingerprint` gives it."""
    items: tuple[InventoryItem, ...]
    foreign: tuple[InventoryFile, ...]
    """Files in site-packages that no RECORD lists."""


def inventory(reading: Reading, facts: Fingerprint) -> Inventory:
    """Return the inventory; the reading's options say `deep` and `contents`, so that every file has been hashed."""
    items = reading.fact(Distributions).items
    verified = verify(reading, {}, self_contained=False)
    problems: dict[tuple[str, str], str] = {}
    for fault in verified.faults:
        if fault.path:
            problems.setdefault((fault.owner, fault.path), fault.problem)
    site = f"{reading.fact(Interpreter).library}/site-packages"
    build = facts.get(TorchBuild)
    return Inventory(
        target=facts.target,
        taken_at=facts.taken_at,
        python=reading.fact(Interpreter).minor,
        torch=build.version if build else "",
        digest=digest(identity_of(facts)),
        items=tuple(_item(reading, at, item, problems) for at, item in enumerate(items)),
        foreign=tuple(
            _file(reading, site, path, "", "in no RECORD")
            for (owner, path), problem in sorted(problems.items())
            if not owner and problem == "is in no RECORD"
        ),
    )


def _item(reading: Reading, at: int, item: Distribution, problems: Mapping[tuple[str, str], str]) -> InventoryItem:
    record = f"{item.folder}/RECORD"
    rows = index(reading).rows.get(at, ())
    return InventoryItem(
        name=item.name,
        version=item.version,
        folder=os.path.relpath(f"{item.site}/{item.folder}", reading.target.prefix),
        shadowed=item.shadowed,
        direct_url=item.direct_url,
        editable=item.editable,
        record=_file(reading, item.site, record, "", "") if item.has_record else None,
        files=tuple(
            _file(reading, item.site, path, stated, problems.get((item.name, path), ""))
            for path, stated, _ in rows
            if path != record and not is_bytecode(path, stated)
        ),
        conflicts=tuple(_conflicts(reading, item.name)),
        requires=tuple(sorted(_required(reading, item))),
    )


def _file(reading: Reading, site: str, written: str, stated: str, problem: str) -> InventoryFile:
    """Return a file with the hash that RECORD states where it was found to be so, else with its own."""
    full = os.path.normpath(f"{site}/{written}")
    path = os.path.relpath(full, reading.target.prefix)
    known = hex_of(stated) if usable(stated) and not problem else ""
    found, problem = (known, problem) if known else _hashed(full, problem)
    return InventoryFile(path=path, sha256=found, problem=problem)


def _hashed(path: str, problem: str) -> tuple[str, str]:
    """Return a file's hash and the problem; no hash for what is not a file, and for what is larger than any file."""
    try:
        with open_regular(path) as file:
            if (size := os.fstat(file.fileno()).st_size) > _LARGEST:
                return "", f"{problem}; " * bool(problem) + f"not hashed, it has {size} bytes"
            return hashlib.file_digest(file, "sha256").hexdigest(), problem
    except OSError:
        return "", problem


def _conflicts(reading: Reading, name: str) -> Iterator[str]:
    for contested in reading.fact(InstalledFiles).contested:
        owners = [claim.owner for claim in contested.claims]
        if name in owners:
            others = ", ".join(owner for owner in owners if owner != name)
            bytes_of = ", ".join(contested.on_disk) or "none of them, as far as could be determined"
            yield f"{contested.path}, also of {others}; the bytes are those of {bytes_of}"


def _required(reading: Reading, item: Distribution) -> set[str]:
    markers = reading.fact(Interpreter).markers()
    needed = (parse_requirement(line) for line in item.requires)
    return {normalized(one.name) for one in needed if one is not None and applies(one, markers)}
