"""Which NCCL `import torch` would map, and what its bytes are: ranks with another one hang all of them.

A library of 300 MB is not hashed at a launch: its size and samples spread over it tell one build from another.
"""

import os
from pathlib import Path

from envdoctor.errors import ProbeError
from envdoctor.facts.context import Reading
from envdoctor.facts.regular_file import open_regular
from envdoctor.model.frozen import frozen
from envdoctor.probes.loading.libraries import Libraries

SONAMES = ("libnccl.so.2", "librccl.so.1")
"""NVIDIA's, and AMD's of the same interface."""
_SAMPLES, _SAMPLE = 16, 64 * 1024


@frozen
class Nccl:
    """The collective library of the process; all empty where `import torch` maps none."""

    path: str
    """Relative to the prefix when inside it."""
    owner: str
    """The distribution whose file it is; empty for none."""
    owner_version: str
    size: int
    """Bytes."""
    sampled: str
    """sha256 over the size and 16 samples of 64 KiB, evenly spread, the first and the last bytes among them."""


def probe(reading: Reading) -> Nccl:
    """Find it among the libraries of `import torch`. Raises ProbeError when it cannot be read."""
    found = next((one for one in reading.fact(Libraries).providers if one.soname in SONAMES), None)
    if found is None:
        return Nccl(path="", owner="", owner_version="", size=0, sampled="")
    size, digest = _sampled(reading.target.prefix / found.path)
    return Nccl(path=found.path, owner=found.owner, owner_version=found.owner_version, size=size, sampled=digest)


def _sampled(path: Path) -> tuple[int, str]:
    import hashlib  # noqa: PLC0415 - it loads OpenSSL, and few checks hash anything

    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            made = hashlib.sha256(str(size).encode())
            last = max(0, size - _SAMPLE)
            for at in sorted({last * number // (_SAMPLES - 1) for number in range(_SAMPLES)}):
                file.seek(at)
                made.update(file.read(_SAMPLE))
    except OSError as error:
        raise ProbeError(f"{path} cannot be read: {error.strerror or error}") from error
    return size, made.hexdigest()
