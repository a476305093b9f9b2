"""What earlier restores read, file by file, so that the next one need not: contents known by their inode and times.

uv links a venv's files from its cache. A new link moves the inode's time (ctime), so that the digests of one venv
(`digest_memo`) say nothing about the next venv's files, although they are the same inodes. Here a file is known by its
device, inode, size and time of last change of contents (mtime). Writing to it moves that time, and so does a
mapping that is written through (inode(7), mmap(2)). Bytes change under an equal key only where

- its owner or root writes into it and sets the time back (utimensat(2)): files of other users are never remembered, and
  `restore --verify all` reads everything;
- the disk itself changes them, or somebody writes to the disk below the file system: the same option;
- the inode is given to another file of the same size and time. Times of a whole second, as archives and coarse file
  systems give them to many files, are therefore not remembered, nor is a time that was not yet past when it was read.
"""

import os
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from envdoctor.facts.host import Host
from envdoctor.facts.memo_file import memo_path, read_own, write_memo
from envdoctor.probes.venv.digest_memo import content_key, modified_ns, settled_contents

_MAGIC = b"envdoctor verified contents 1\n"
_ENTRY = struct.Struct("32s43s")
_MAXIMUM_ENTRIES = 400_000
"""A stack of 90 distributions has 26,000 files; each takes 75 bytes."""
_MAXIMUM = len(_MAGIC) + 8 + _MAXIMUM_ENTRIES * _ENTRY.size
_SECOND = 1_000_000_000
_WORTH_WRITING = 50
"""One new file in so many known ones is worth writing."""

Contents = Mapping[bytes, bytes]
"""Content key of a file (digest_memo) -> its sha256 in base64, as RECORD writes it."""


class Read(NamedTuple):
    """One file that was read."""

    key: bytes
    """digest_memo.key_of, as it was then."""
    sha256: bytes
    path: str


def load(host: Host) -> dict[bytes, bytes]:
    """Return what is known, the longest known first; one that is damaged, or that another user wrote, says nothing."""
    try:
        return dict(_parse(read_own(_path(host), _MAXIMUM)))
    except (OSError, ValueError, struct.error):
        return {}


def save(known: Contents, read: Iterable[Read], started_ns: int, host: Host) -> None:
    """Add what was read since `started_ns` and write it down; the longest known give way. A full disk is no matter."""
    new = {content_key(item.key): item.sha256 for item in read if lasting(item, started_ns)}
    # The notes and scripts that uv writes for each venv, which no other venv links: reading those of this one again
    # takes less than to write everything down for them.
    if len(new) * _WORTH_WRITING <= len(known):
        return
    kept = {key: digest for key, digest in known.items() if key not in new} | new
    entries = list(kept.items())[-_MAXIMUM_ENTRIES:]
    body = b"".join(key + digest for key, digest in entries)
    try:
        write_memo(_path(host), _MAGIC + b"%08x" % zlib.crc32(body) + body)
    except OSError:
        return  # the next restore reads the files again


def lasting(item: Read, started_ns: int) -> bool:
    """Tell whether a file that was read after `started_ns` is known by its key as long as nobody sets its time back."""
    if modified_ns(item.key) % _SECOND == 0 or not settled_contents(item.key, started_ns):
        return False
    try:
        return os.stat(item.path).st_uid in (0, os.geteuid())  # noqa: PTH116 - thousands of string paths
    except OSError:
        return False


def _path(host: Host) -> Path:
    # One for all venvs: the files are uv's cache's, whatever links to them.
    return memo_path("verified", Path("/"), host)


def _parse(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    start = len(_MAGIC) + 8
    body = memoryview(data)[start:]
    if not data.startswith(_MAGIC) or data[len(_MAGIC) : start] != b"%08x" % zlib.crc32(body):
        raise ValueError("not a memo of this version, or damaged")
    return _ENTRY.iter_unpack(body)
