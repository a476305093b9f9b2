"""Where what was read is remembered between runs: one small file an environment, below $XDG_CACHE_HOME/envdoctor."""

import contextlib
import errno
import os
import stat
import time
import zlib
from collections.abc import Iterable
from pathlib import Path

from envdoctor.facts.host import Host
from envdoctor.facts.on_failure import on_failure
from envdoctor.facts.regular_file import read_with_status

_SECOND = 1_000_000_000
# ext4 and xfs stamp times by the timer tick, at most 10 ms; a change in the same tick leaves no trace in them.
_TICK = 100_000_000
# Coarse file systems (NFS of old servers, FAT, HFS+) keep whole seconds, or every other one.
_COARSE = 2 * _SECOND
_KEPT = 64
"""Memo files of one kind; the ones used longest ago go first."""

# Longer than any file system takes a name (NAME_MAX is 255): it can be neither read nor written.
_NOWHERE = Path("/" + "no-memo-" * 64)


def memo_path(kind: str, prefix: Path, host: Host) -> Path:
    """Return the memo of an environment for one kind of fact ("digests"); a host that remembers nothing has none."""
    if not host.remembers:
        return _NOWHERE
    cache = Path(host.environ.get("XDG_CACHE_HOME") or host.home / ".cache")
    # The specification has relative values ignored (XDG Base Directory, "Environment variables").
    folder = (cache if cache.is_absolute() else host.home / ".cache") / "envdoctor" / kind
    # Two environments of one name would only forget each other: every memo says itself what it was made of.
    name = os.fsencode(prefix)
    return folder / f"{zlib.crc32(name):08x}{zlib.crc32(name[::-1]):08x}{len(name):04x}.memo"


def settled(changed_ns: int, read_ns: int) -> bool:
    """Tell whether a file was last changed long enough before it was read for a later change to show in its times.

    A time in the future never is: the clock that gave it is not ours, or ours went back.
    """
    return changed_ns < read_ns - (_TICK if changed_ns % _SECOND else _COARSE)


def read_own(path: Path, maximum: int) -> bytes:
    """Return a memo that only this user, or root, can have written.

    Raises FileNotFoundError for none, PermissionError for one that another user could have written or that is from the
    future, and OSError as `read_regular` does. Where the clock went back, a file that is changed now may get the times
    that it had when the memo was written.
    """
    status, data = read_with_status(path, maximum)
    if status.st_uid not in (0, os.geteuid()) or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(errno.EPERM, "another user may have written it", str(path))
    if status.st_mtime_ns > time.time_ns():
        raise PermissionError(errno.EPERM, "it was written in the future: the clock went back", str(path))
    return data


def write_memo(path: Path, data: bytes) -> None:
    """Write a memo in one step: of two processes the later one wins, whole. Raise OSError when it cannot be."""
    import tempfile  # noqa: PLC0415 - most checks only read

    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, written = tempfile.mkstemp(prefix=".", suffix=".memo", dir=path.parent)
    temporary = Path(written)
    # It has gone where a stop came right behind the last step.
    with on_failure(lambda: temporary.unlink(missing_ok=True)):
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        temporary.replace(path)
    # Only whole memos: the temporary one of another process may be gone between its listing and a look at it.
    for old in _by_age(path.parent.glob("[!.]*.memo"))[:-_KEPT]:
        old.unlink(missing_ok=True)


def _by_age(memos: Iterable[Path]) -> list[Path]:
    aged = []
    for memo in memos:
        with contextlib.suppress(FileNotFoundError):  # another process made room, too
            aged.append((memo.stat().st_mtime, memo))
    return [memo for _, memo in sorted(aged)]
