"""What every RECORD promises, against what lies on disk: existence and size, no contents but of contested ties."""

import base64
import hashlib
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from envdoctor.probes.context import Reading
from envdoctor.probes.distributions import Distribution, Distributions
from envdoctor.probes.records import RecordIndex, Row, index
from envdoctor.probes.regular_file import read_regular

# Owners whose bytes cannot be told by size alone are told by hash, as long as that stays quick.
_TIE_FILE = 8 * 1024 * 1024
_TIE_TOTAL = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A file that is not as its owner's RECORD says."""

    path: str
    """Relative to the prefix (or absolute in a leaked folder)."""
    owner: str
    kind: Literal["missing", "resized", "not a file", "unreadable"]
    recorded_size: int
    size: int
    """-1 when there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One owner of a contested path."""

    owner: str
    version: str
    hash: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Contested:
    """A path in the RECORD of several distributions that do not agree on its bytes."""

    path: str
    claims: tuple[Claim, ...]
    on_disk: tuple[str, ...]
    """Owners whose RECORD the bytes on disk match; empty when none does or it could not be told."""
    told_by: Literal["size", "hash", "missing", "not told"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """How one distribution's RECORD fared."""

    name: str
    version: str
    files: int
    bytes: int
    missing: int
    resized: int
    record_sha256: str
    """Digest of RECORD itself, so that two fingerprints can be compared by content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledFiles:
    """RECORD truth of the environment."""

    owners: tuple[Owner, ...]
    faults: tuple[Fault, ...]
    contested: tuple[Contested, ...]
    shared_equal: int
    """Paths with several owners that agree on the bytes (harmless until one is uninstalled)."""
    outside: tuple[tuple[str, str], ...]
    """(owner, row) of rows that lead out of the environment; never followed."""
    malformed: tuple[str, ...]


def probe(reading: Reading) -> InstalledFiles:
    """Stat every RECORD row but bytecode and rows that lead outside."""
    items = reading.fact(Distributions).items
    records = index(reading)
    prefix = str(reading.target.prefix) + os.sep
    faults: list[Fault] = []
    owners = [_owner(items[at], rows, prefix, faults) for at, rows in records.rows.items()]
    contested, equal = _contested(records, items, prefix)
    return InstalledFiles(
        owners=tuple(owners),
        faults=tuple(faults),
        contested=contested,
        shared_equal=equal,
        # A base interpreter's scripts lie outside its site folder, and pip --target writes such rows for its own.
        outside=tuple((items[at].name, path) for at, path in records.outside if items[at].origin == "site-packages"),
        malformed=tuple(f"{items[at].name}: {reason}" for at, reason in records.malformed),
    )


def _owner(item: Distribution, rows: Sequence[Row], prefix: str, faults: list[Fault]) -> Owner:
    base = item.site + os.sep
    status_of = os.stat
    counts = {"missing": 0, "resized": 0}
    total = 0
    for path, _, size in rows:
        # Bytecode is rewritten by every interpreter; its absence or another size says nothing.
        if path.endswith(".pyc"):
            continue
        try:
            status = status_of(base + path)
        except OSError as error:
            kind: Literal["missing", "unreadable"] = (
                "missing" if isinstance(error, FileNotFoundError | NotADirectoryError) else "unreadable"
            )
            counts["missing"] += kind == "missing"
            faults.append(_fault(item, path, prefix, kind, size, -1))
            continue
        total += status.st_size
        if size >= 0 and status.st_size != size:
            counts["resized"] += 1
            faults.append(_fault(item, path, prefix, "resized", size, status.st_size))
        elif not stat.S_ISREG(status.st_mode):
            faults.append(_fault(item, path, prefix, "not a file", size, -1))
    return Owner(
        name=item.name,
        version=item.version,
        files=len(rows),
        bytes=total,
        missing=counts["missing"],
        resized=counts["resized"],
        record_sha256=_digest(Path(item.site, item.folder, "RECORD")),
    )


def _fault(
    item: Distribution,
    path: str,
    prefix: str,
    kind: Literal["missing", "resized", "not a file", "unreadable"],
    recorded: int,
    size: int,
) -> Fault:
    full = os.path.normpath(os.path.join(item.site, path))  # noqa: PTH118 - faults can be thousands
    return Fault(path=full.removeprefix(prefix), owner=item.name, kind=kind, recorded_size=recorded, size=size)


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(read_regular(path, 64 * 1024 * 1024)).hexdigest()
    except OSError:
        return ""


def _contested(records: RecordIndex, items: Sequence[Distribution], prefix: str) -> tuple[tuple[Contested, ...], int]:
    found: list[Contested] = []
    equal = 0
    budget = _TIE_TOTAL
    for full, claims in records.contested.items():
        if full.endswith(".pyc"):
            continue
        if len({row.hash for _, row in claims}) == 1 and claims[0][1].hash:
            equal += 1
            continue
        on_disk, told_by, spent = _whose(full, claims, budget)
        budget -= spent
        found.append(
            Contested(
                path=full.removeprefix(prefix),
                claims=tuple(
                    Claim(owner=items[at].name, version=items[at].version, hash=row.hash, size=row.size)
                    for at, row in claims
                ),
                on_disk=tuple(items[at].name for at in on_disk),
                told_by=told_by,
            )
        )
    return tuple(found), equal


def _whose(
    full: str, claims: Sequence[tuple[int, Row]], budget: int
) -> tuple[list[int], Literal["size", "hash", "missing", "not told"], int]:
    try:
        status = os.stat(full)  # noqa: PTH116 - a string path, thousands of times
    except OSError:
        return [], "missing", 0
    fitting = [(at, row) for at, row in claims if row.size == status.st_size]
    if len({row.hash for _, row in fitting}) <= 1:
        return [at for at, _ in fitting], "size", 0
    if status.st_size > min(_TIE_FILE, budget):
        return [], "not told", 0
    try:
        digest = hashlib.sha256(read_regular(full, _TIE_FILE)).digest()
    except OSError:
        return [], "not told", 0
    text = "sha256=" + base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    return [at for at, row in fitting if row.hash == text], "hash", status.st_size
