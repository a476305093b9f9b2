"""Paths that several distributions list in their RECORDs, and whose bytes lie there."""

import os
from collections.abc import Sequence

from envdoctor.facts.context import Reading
from envdoctor.model.frozen import frozen
from envdoctor.probes.loading.comparison import comparison, link_roots
from envdoctor.probes.venv.content_owner import ToldBy, WhoseBytes
from envdoctor.probes.venv.digest_memo import DigestMemo
from envdoctor.probes.venv.distributions import Distribution, Distributions
from envdoctor.probes.venv.file_digests import FileDigests
from envdoctor.probes.venv.importers import importer_of, lone_module
from envdoctor.probes.venv.namespaces import is_namespace
from envdoctor.probes.venv.record_rows import is_bytecode
from envdoctor.probes.venv.records import RecordIndex, Row, index


@frozen
class Claim:
    """One owner of a contested path."""

    owner: str
    version: str
    hash: str
    size: int


@frozen
class Contested:
    """A path in the RECORD of several distributions that do not agree on its bytes."""

    path: str
    claims: tuple[Claim, ...]
    on_disk: tuple[str, ...]
    """Owners whose RECORD the bytes on disk match; empty when none does or it could not be determined."""
    told_by: ToldBy
    imported_by: str = ""
    """For a module that is one file beside the packages: a file of its owners that imports it; empty for none."""
    namespace: bool = False
    """An __init__.py that is empty or only extends `__path__`, for each of its owners as far as that is known."""


@frozen
class DisputedPaths:
    """All of them, in memory."""

    found: tuple[Contested, ...]
    shared_equal: int
    """Paths with several owners that agree on the bytes."""


def contested_paths(reading: Reading) -> DisputedPaths:
    """Return them. Where the options ask for every file's hash, those must have been taken before."""
    return reading.material(DisputedPaths, _look)


def told_by_rows(reading: Reading) -> bool:
    """Tell whether the RECORDs alone say all of it: all that list a path state the same bytes."""
    return all(is_bytecode(path) or _equal(claims) for path, claims in index(reading).contested.items())


def _equal(claims: Sequence[tuple[int, Row]]) -> bool:
    return len({row.hash for _, row in claims}) == 1 and bool(claims[0][1].hash)


def _look(reading: Reading) -> DisputedPaths:
    items, records = reading.fact(Distributions).items, index(reading)
    found, equal = _contested(records, items, str(reading.target.prefix) + os.sep, _whose(reading))
    return DisputedPaths(found=found, shared_equal=equal)


def _whose(reading: Reading) -> WhoseBytes:
    if reading.options.deep:
        return WhoseBytes(digests=comparison(reading).digests, hash_all=True)
    return WhoseBytes(digests=FileDigests(memo=DigestMemo(path=None), roots=link_roots(reading)), hash_all=False)


def _contested(
    records: RecordIndex, items: Sequence[Distribution], prefix: str, whose: WhoseBytes
) -> tuple[tuple[Contested, ...], int]:
    found: list[Contested] = []
    equal = 0
    for full, claims in records.contested.items():
        if is_bytecode(full):
            continue
        if _equal(claims):
            equal += 1
            continue
        on_disk, told_by = whose.of(full, claims)
        module = lone_module(full, {items[at].site for at, _ in claims})
        importer = importer_of(module, (at for at, _ in claims), records, items) if module else ""
        found.append(
            Contested(
                path=full.removeprefix(prefix),
                claims=tuple(
                    Claim(owner=items[at].name, version=items[at].version, hash=row.hash, size=row.size)
                    for at, row in claims
                ),
                on_disk=tuple(items[at].name for at in on_disk),
                told_by=told_by,
                imported_by=importer.removeprefix(prefix),
                namespace=full.endswith("/__init__.py") and is_namespace(full, [row.size for _, row in claims]),
            )
        )
    return tuple(found), equal
