"""The bytes of every file against the hash its RECORD states."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from envdoctor.probes import digest_memo, uv_cache
from envdoctor.probes.context import Reading
from envdoctor.probes.distributions import Distribution, Distributions
from envdoctor.probes.file_digests import FileDigests, Wanted, usable
from envdoctor.probes.records import Fields, RecordIndex, index


class Mismatch(NamedTuple):
    """A row whose file holds other bytes, or could not be hashed."""

    owner: int
    """Index into `Distributions.items`."""
    row: Fields
    found: str
    """The hash field of the bytes on disk; empty when they could not be hashed."""
    reason: str
    """Why not; empty when they were."""


@dataclass(slots=True, kw_only=True)
class Comparison:
    """What comparing gave. `digests` also tells the bytes of paths that several distributions claim."""

    digests: FileDigests
    files: int = 0
    """Rows whose file was compared."""
    without_hash: int = 0
    bytecode: int = 0
    altered: list[Mismatch] = field(default_factory=list)
    unverified: list[Mismatch] = field(default_factory=list)


class _Pending(NamedTuple):
    owner: int
    row: Fields
    key: bytes
    algorithm: str


def compare(reading: Reading, keys: Mapping[int, Mapping[str, bytes]]) -> Comparison:
    """Hash what is not remembered and compare all of it.

    `keys` has, for each distribution with a RECORD, path as written -> key of the file (digest_memo.key_of). A path
    whose file is missing, no file, of another size than recorded, or bytecode has none.
    """
    records = index(reading)
    items = reading.fact(Distributions).items
    memo = digest_memo.load(reading.target.prefix, reading.host)
    made = Comparison(digests=FileDigests(memo=memo, roots=link_roots(reading)))
    pending = list(_unknown(records, keys, made))
    if pending:
        asked = [
            Wanted(algorithm=item.algorithm, key=item.key, path=_full(items, item), size=digest_memo.size_of(item.key))
            for item in pending
        ]
        made.digests.hash(asked, reading.options.progress)
        for item in pending:
            _judge(item, records, items, made)
        made.digests.remember(
            (usable(row[1]), keys[at].get(row[0], b"")) for at, rows in records.rows.items() for row in rows
        )
    return made


def link_roots(reading: Reading) -> tuple[str, ...]:
    """Return the folders a file that is a symlink may lead into: the environment's own and uv's cache."""
    sites = (item.site for item in reading.fact(Distributions).items)
    folders = {str(reading.target.prefix), str(uv_cache.folder(reading.host)), *sites}
    return tuple(os.path.realpath(folder) + os.sep for folder in sorted(folders))


def _unknown(records: RecordIndex, keys: Mapping[int, Mapping[str, bytes]], made: Comparison) -> Iterator[_Pending]:
    """Yield the rows whose file must be hashed; count the others."""
    known = made.digests.memo.known.get("sha256", {})
    for at, rows in records.rows.items():
        key_of_path = keys[at].get
        for row in rows:
            path, stated, _ = row
            key = key_of_path(path)
            # "sha256=" has seven characters; another algorithm's digest has another length, so it never fits here.
            if key and known.get(key) == stated[7:].encode("utf-8", "replace"):
                made.files += 1
            elif not key:
                made.bytecode += path.endswith(".pyc")
            elif not stated:
                made.without_hash += 1
            elif not (algorithm := usable(stated)):
                reason = "RECORD states no hash that a file can be compared with"
                made.unverified.append(Mismatch(at, row, "", reason))
            elif _digest(made, algorithm, key) == stated:
                made.files += 1
            else:
                # Known to differ, it is hashed again: only what is read now may accuse a file.
                yield _Pending(at, row, key, algorithm)


def _judge(item: _Pending, records: RecordIndex, items: Sequence[Distribution], made: Comparison) -> None:
    found = _digest(made, item.algorithm, item.key)
    problem = made.digests.problems.get((item.algorithm, item.key))
    if problem is not None or not found:
        made.unverified.append(Mismatch(item.owner, item.row, "", problem or "it was not hashed"))
        return
    made.files += 1
    claims = records.contested.get(_full(items, item), ())
    # The bytes of another owner are that check's business; equal ones are told once, for the first owner.
    if found != item.row[1].rstrip("=") and not any(
        claim.hash.rstrip("=") == found or (at < item.owner and claim.hash == item.row[1]) for at, claim in claims
    ):
        made.altered.append(Mismatch(item.owner, item.row, found, ""))


def _digest(made: Comparison, algorithm: str, key: bytes) -> str:
    digest = made.digests.get(algorithm, key)
    return f"{algorithm}={digest.decode()}" if digest is not None else ""


def _full(items: Sequence[Distribution], item: _Pending) -> str:
    return os.path.normpath(f"{items[item.owner].site}/{item.row[0]}")
