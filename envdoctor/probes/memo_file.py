"""Where what was read is remembered between runs: one small file an environment, below $XDG_CACHE_HOME/envdoctor."""

import os
import tempfile
from hashlib import sha256
from pathlib import Path

from envdoctor.probes.host import Host

_KEPT = 64
"""Memo files of one kind; the ones used longest ago go first."""


def memo_path(kind: str, prefix: Path, host: Host) -> Path:
    """Return the memo of an environment for one kind of fact ("digests")."""
    cache = Path(host.environ.get("XDG_CACHE_HOME") or host.home / ".cache")
    # The specification has relative values ignored (XDG Base Directory, "Environment variables").
    folder = (cache if cache.is_absolute() else host.home / ".cache") / "envdoctor" / kind
    return folder / f"{sha256(os.fsencode(prefix)).hexdigest()[:32]}.memo"


def write_memo(path: Path, data: bytes) -> None:
    """Write a memo in one step: of two processes the later one wins, whole. Raise OSError when it cannot be."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, written = tempfile.mkstemp(prefix=".", suffix=".memo", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.replace(written, path)  # noqa: PTH105 - mkstemp gives a string
    except BaseException:
        os.unlink(written)  # noqa: PTH108 - as above
        raise
    with os.scandir(path.parent) as entries:
        ages = sorted((entry.stat().st_mtime, entry.path) for entry in entries if entry.name.endswith(".memo"))
    for _, old in ages[:-_KEPT]:
        Path(old).unlink(missing_ok=True)
