"""The bytes of every file against the hash its RECORD states."""

import os
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import NamedTuple

from envdoctor.facts.context import Reading
from envdoctor.model.frozen import field, mutable
from envdoctor.probes.venv import digest_memo, uv_cache
from envdoctor.probes.venv.digest_memo import content_key
from envdoctor.probes.venv.distributions import Distribution, Distributions
from envdoctor.probes.venv.file_digests import FileDigests, FileToHash, Hashing, usable
from envdoctor.probes.venv.record_rows import is_bytecode
from envdoctor.probes.venv.records import RecordIndex, index
from envdoctor.probes.venv.rows import Fields


class Mismatch(NamedTuple):
    """A row whose file holds other bytes, or could not be hashed."""

    owner: int
    """Index into `Distributions.items`."""
    row: Fields
    found: str
    """The hash field of the bytes on disk; empty when they could not be hashed."""
    reason: str
    """Why not; empty when they were."""
    unreadable: bool = False
    """The file is at fault, not the hash that RECORD states."""


class _Pending(NamedTuple):
    owner: int
    row: Fields
    key: bytes
    algorithm: str


@mutable
class RecordComparison:
    """What comparing gave. `digests` also tells the bytes of paths that several distributions claim."""

    digests: FileDigests
    files: int = 0
    """Rows whose file was compared."""
    file_bytes: int = 0
    """In those files."""
    without_hash: int = 0
    bytecode: int = 0
    altered: list[Mismatch] = field(default_factory=list)
    unverified: list[Mismatch] = field(default_factory=list)
    pending: list[_Pending] = field(default_factory=list)
    keys: list[tuple[str, bytes]] = field(default_factory=list)
    """(algorithm, key) of every file with a usable hash."""
    read: int = 0
    """Files that this run hashed; the others are known from an earlier one, and by their times not changed since."""
    read_bytes: int = 0

    @property
    def by_contents_alone(self) -> bool:
        """Tell whether nothing is known but files by their contents' times, and nothing is remembered by path."""
        return bool(self.digests.proven) and self.digests.memo.path is None

    def take_known(self, files: int, total: int, read: int, read_bytes: int) -> None:
        """Count files that are as recorded by what is proven of them, and those of them that this run read."""
        self.files += files
        self.file_bytes += total
        self.read += read
        self.read_bytes += read_bytes

    def take(self, at: int, rows: Sequence[Fields], keys: Mapping[str, bytes], site: str, hashing: Hashing) -> None:
        """Compare one distribution's rows with what is remembered and hand the others to `hashing`.

        `keys` has path as written -> key of the file (digest_memo.key_of). A path whose file is missing, no file, of
        another size than recorded, or bytecode has none.
        """
        new = list(self._unknown(at, rows, keys))
        self.pending += new
        asked = hashing.add(
            FileToHash(algorithm, key, f"{site}/{row[0]}", digest_memo.size_of(key)) for _, row, key, algorithm in new
        )
        self.read += len(asked)
        self.read_bytes += sum(item.size for item in asked)
        self.file_bytes += sum(map(digest_memo.size_of, keys.values()))

    def _unknown(self, at: int, rows: Sequence[Fields], keys: Mapping[str, bytes]) -> Iterator[_Pending]:
        known, proven = self.digests.memo.known.get("sha256", {}), self.digests.proven
        for row in rows:
            path, stated, _ = row
            key = keys.get(path)
            # "sha256=" has seven characters; another algorithm's digest has another length, so it never fits here.
            if key and (known.get(key) or proven.get(content_key(key))) == stated[7:].encode("utf-8", "replace"):
                self.files += 1
                self.keys.append(("sha256", key))
                if content_key(key) in self.digests.ahead:
                    self.read += 1
                    self.read_bytes += digest_memo.size_of(key)
            elif not key:
                self.bytecode += is_bytecode(path, stated)
            elif not stated:
                self.without_hash += 1
                self.file_bytes -= digest_memo.size_of(key)
            elif not (algorithm := usable(stated)):
                reason = "RECORD states no hash that a file can be compared with"
                self.unverified.append(Mismatch(at, row, "", reason))
            else:
                self.keys.append((algorithm, key))
                if algorithm != "sha256" and self._digest(algorithm, key) == stated:
                    self.files += 1
                else:
                    # Known to differ, it is hashed again: only what is read now may accuse a file.
                    yield _Pending(at, row, key, algorithm)

    def judge(self, records: RecordIndex, items: Sequence[Distribution]) -> None:
        """Compare what was pending, now that it is hashed, and remember it."""
        for at, row, key, algorithm in self.pending:
            found = self._digest(algorithm, key)
            problem = self.digests.problems.get((algorithm, key))
            if problem is not None or not found:
                self.unverified.append(Mismatch(at, row, "", problem or "it was not hashed", unreadable=True))
                continue
            self.files += 1
            if found == row[1].rstrip("="):
                continue
            claims = records.contested.get(os.path.normpath(f"{items[at].site}/{row[0]}"), ())
            # The bytes of another owner are that check's business; equal ones are told once, for the first owner.
            others = (claim.hash.rstrip("=") == found or (one < at and claim.hash == row[1]) for one, claim in claims)
            if not any(others):
                self.altered.append(Mismatch(at, row, found, ""))
        if self.pending:
            self.digests.remember(self.keys)

    def _digest(self, algorithm: str, key: bytes) -> str:
        digest = self.digests.get(algorithm, key)
        return f"{algorithm}={digest.decode()}" if digest is not None else ""


def comparison(reading: Reading) -> RecordComparison:
    """Return the comparison of this reading's environment: empty at first, with what earlier runs remember."""
    return reading.material(RecordComparison, _begin)


def compare_with(reading: Reading, proven: Mapping[bytes, bytes], ahead: Container[bytes] = ()) -> None:
    """Let this reading take nothing from earlier runs but `proven`: content key (digest_memo) -> sha256.

    With an empty mapping every file is read. What is read is not remembered. ahead: content keys that this run read.
    """
    memo = digest_memo.DigestMemo(path=None)
    reading.shared[RecordComparison] = RecordComparison(
        digests=FileDigests(memo=memo, roots=link_roots(reading), proven=proven, ahead=ahead)
    )


def _begin(reading: Reading) -> RecordComparison:
    index(reading)
    memo = digest_memo.load(reading.target.prefix, reading.host)
    if reading.options.everything:
        memo.known.clear()
    return RecordComparison(digests=FileDigests(memo=memo, roots=link_roots(reading), proven=reading.options.proven))


def link_roots(reading: Reading) -> tuple[str, ...]:
    """Return the folders a file that is a symlink may lead into: the environment's own and uv's cache."""
    sites = (item.site for item in reading.fact(Distributions).items)
    folders = {str(reading.target.prefix), str(uv_cache.folder(reading.host)), *sites}
    return tuple(os.path.realpath(folder) + os.sep for folder in sorted(folders))
