"""Which of several owners' bytes are at a path: by size, and where sizes are equal, by hash."""

import os
from collections.abc import Sequence
from typing import Literal

from envdoctor.model.frozen import mutable
from envdoctor.probes.venv.digest_memo import key_of
from envdoctor.probes.venv.file_digests import FileDigests, FileToHash, Hashing, usable
from envdoctor.probes.venv.records import Row

ToldBy = Literal["size", "hash", "missing", "not told"]
# Without `--deep` owners of equal sizes are told by hash only as long as that stays quick.
_TIE_FILE = 8 * 1024 * 1024
_TIE_TOTAL = 64 * 1024 * 1024


@mutable
class WhoseBytes:
    """Tells path after path, within one budget of bytes to hash."""

    digests: FileDigests
    hash_all: bool
    """True where `digests` knows every file already: then the hash tells, whatever the sizes."""
    budget: int = _TIE_TOTAL

    def of(self, path: str, claims: Sequence[tuple[int, Row]]) -> tuple[list[int], ToldBy]:
        """Return the owners whose RECORD the file at `path` fits, and what told that."""
        try:
            status = os.stat(path)  # noqa: PTH116 - a string path
        except OSError:
            return [], "missing"
        fitting = [(at, row) for at, row in claims if row.size in (-1, status.st_size)]
        if not fitting or (not self.hash_all and len({row.hash for _, row in fitting}) == 1):
            return [at for at, _ in fitting], "size"
        if not self.hash_all and status.st_size > min(_TIE_FILE, self.budget):
            return [], "not told"
        key = key_of(status)
        algorithms = {algorithm for _, row in fitting if (algorithm := usable(row.hash))}
        if not self.hash_all:
            self.budget -= status.st_size
            with Hashing(self.digests) as hashing:
                hashing.add(FileToHash(name, key, path, status.st_size) for name in algorithms)
        found = {name: digest.decode() for name in algorithms if (digest := self.digests.get(name, key)) is not None}
        if not found:
            return [], "not told"
        texts = {f"{name}={digest}" for name, digest in found.items()}
        return [at for at, row in fitting if row.hash.rstrip("=") in texts], "hash"
