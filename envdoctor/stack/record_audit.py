"""Every file of a venv compared with every RECORD that lists it: what a repair is planned from and judged by."""

import os
from collections.abc import Mapping, Sequence

from envdoctor.analysis.damage import kept_by_others
from envdoctor.facts.context import Reading
from envdoctor.model.frozen import frozen
from envdoctor.probes.loading.comparison import RecordComparison, comparison
from envdoctor.probes.venv.digest_memo import content_key, key_of
from envdoctor.probes.venv.distributions import Distribution, Distributions
from envdoctor.probes.venv.installed_files import InstalledFiles
from envdoctor.probes.venv.own_packages import own_packages
from envdoctor.probes.venv.record_rows import is_bytecode, recorded_size
from envdoctor.probes.venv.records import RecordIndex, index
from envdoctor.stack.owner_graph import Graph, RecordRow, graph
from envdoctor.stack.verify import Verified

Proven = Mapping[bytes, bytes]
"""Content key of a file (its key without the inode's time) -> sha256 as RECORD writes it."""


@frozen
class RecordAudit:
    """Every RECORD row of a venv's own distributions, compared with the disk."""

    graph: Graph
    torn: Mapping[str, str]
    """Distributions whose own metadata is damaged, and what is wrong with it."""
    folders: Mapping[str, tuple[str, ...]]
    """Distribution -> its metadata folders, as absolute paths."""
    packages: Mapping[str, Distribution]
    outside: Mapping[str, tuple[str, ...]]
    """Distribution -> paths in the venv that lead out of it behind a link, as its RECORD lists them."""
    proven: Proven
    """Files that hold what some RECORD states for them."""

    @property
    def files(self) -> int:
        """Return how many files the RECORDs list, bytecode left out."""
        return sum(len(paths) for paths in self.graph.paths.values())

    @property
    def bytes(self) -> int:
        """Return their recorded size."""
        return sum(self.graph.bytes.values())

    @property
    def counts(self) -> Verified:
        """Return how much was read, without faults."""
        return Verified(distributions=len(self.packages), files=self.files, bytes=self.bytes, faults=())


def audit(reading: Reading) -> RecordAudit:
    """Return the audit of a reading whose options say `deep`. Raises ProbeError."""
    items, records = reading.fact(Distributions).items, index(reading)
    reading.fact(InstalledFiles)
    prefix = str(reading.target.prefix) + os.sep
    own = [at for at, item in enumerate(items) if item.origin == "site-packages" and item.folder.endswith(".dist-info")]
    folders: dict[str, list[str]] = {}
    for at in own:
        folders.setdefault(items[at].name, []).append(f"{items[at].site}/{items[at].folder}")
    compared = comparison(reading)
    return RecordAudit(
        graph=graph(_entries(items, records, own, prefix), _bad(reading, compared, items, records, prefix)),
        torn=_torn(items, records, own),
        folders={name: tuple(found) for name, found in folders.items()},
        packages=own_packages(reading),
        outside=_outside(items, records, own, prefix),
        proven=_proven(compared),
    )


def _entries(items: Sequence[Distribution], records: RecordIndex, own: Sequence[int], prefix: str) -> list[RecordRow]:
    return [
        RecordRow(items[at].name, _inner(items[at].site, path, prefix), max(0, recorded_size(size)))
        for at in own
        for path, _, size in records.rows.get(at, ())
        # Bytecode is rewritten by every interpreter; its absence says nothing.
        if not is_bytecode(path, size)
    ]


def _bad(
    reading: Reading, compared: RecordComparison, items: Sequence[Distribution], records: RecordIndex, prefix: str
) -> set[tuple[str, str]]:
    """Return the (owner, path) that are not as that owner's RECORD says."""
    # A RECORD that was published wrong states of a whole file what no reinstall can make true.
    faults = reading.fact(InstalledFiles).faults
    bad = {(fault.owner, fault.path) for fault in faults if not fault.published_at and not kept_by_others(fault)}
    for item in (*compared.altered, *compared.unverified):
        # Where RECORD states no hash that a file can be compared with, there is nothing that speaks against the file.
        if item.found or item.unreadable:
            bad.add((items[item.owner].name, _inner(items[item.owner].site, item.row[0], prefix)))
    for full, claims in records.contested.items():
        digest = _digest(compared, full)
        if digest and not is_bytecode(full):
            bad |= {
                (items[at].name, full.removeprefix(prefix))
                for at, row in claims
                if row.hash.startswith("sha256=") and row.hash.rstrip("=") != digest
            }
    return bad


def _digest(compared: RecordComparison, path: str) -> str:
    try:
        digest = compared.digests.get("sha256", key_of(os.stat(path)))  # noqa: PTH116 - a string path
    except OSError:
        return ""
    return f"sha256={digest.decode()}" if digest is not None else ""


def _torn(items: Sequence[Distribution], records: RecordIndex, own: Sequence[int]) -> dict[str, str]:
    torn: dict[str, str] = {}
    unreadable = {at for at, _ in records.malformed}
    for at in own:
        item = items[at]
        lacking = [name for name, there in (("RECORD", item.has_record), ("METADATA", item.has_metadata)) if not there]
        if lacking:
            torn[item.name] = f"has no {' and no '.join(lacking)}"
        elif at in unreadable:
            torn[item.name] = "has a RECORD that cannot be read"
    return torn


def _outside(
    items: Sequence[Distribution], records: RecordIndex, own: Sequence[int], prefix: str
) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for at, path in records.outside:
        full = os.path.normpath(f"{items[at].site}/{path}")
        if at in own and full.startswith(prefix):
            found.setdefault(items[at].name, []).append(full.removeprefix(prefix))
    return {name: tuple(paths) for name, paths in found.items()}


def _proven(compared: RecordComparison) -> Proven:
    digests = ((key, compared.digests.get("sha256", key)) for algorithm, key in compared.keys if algorithm == "sha256")
    return {content_key(key): digest for key, digest in digests if digest is not None}


def _inner(site: str, path: str, prefix: str) -> str:
    return os.path.normpath(f"{site}/{path}").removeprefix(prefix)
