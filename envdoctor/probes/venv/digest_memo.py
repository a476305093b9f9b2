"""Digests remembered between runs, so that a file that has not changed is hashed once.

A file is known by its device, inode, size, and times of last change of contents and of inode. Writing to it, replacing
it or setting its times back all change one of these; what was changed in the moment it was hashed is not remembered.
"""

import json
import os
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path

from envdoctor.facts import memo_file
from envdoctor.facts.host import Host
from envdoctor.facts.memo_file import memo_path, read_own, write_memo
from envdoctor.model.frozen import field, mutable

_MAGIC = b"envdoctor digests 1\n"
_KEY = struct.Struct("<QQqqq")
_TIME = struct.Struct("<q")
_MAXIMUM_MEMO = 256 * 1024 * 1024

pack_content_key = struct.Struct(_KEY.format[: -len("q")]).pack
"""(device, inode, size, mtime_ns) -> the content key of a file."""
pack_key = _KEY.pack
"""(device, inode, size, mtime_ns, ctime_ns) -> the key of a file."""


@mutable
class DigestMemo:
    """What is known of the files of one environment: algorithm -> key -> base64 digest as RECORD writes it."""

    path: Path | None
    """None for one that is not kept."""
    known: dict[str, dict[bytes, bytes]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    """What kept it from being read or written, in words."""


def key_of(status: os.stat_result) -> bytes:
    """Return the key of the file with that status."""
    return pack_key(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def size_of(key: bytes) -> int:
    """Return the size in a key."""
    return int(_KEY.unpack(key)[2])


def content_key(key: bytes) -> bytes:
    """Return a key without the inode's time, which a new link to the file moves."""
    return key[: -_TIME.size]


def same_contents(key: bytes, other: bytes) -> bool:
    """Tell whether two keys differ in the inode's time at most, which a new link to the file moves as well."""
    return len(key) == len(other) and content_key(key) == content_key(other)


def modified_ns(key: bytes) -> int:
    """Return the time of last change of contents in a key or a content key."""
    return int(_TIME.unpack_from(key, _KEY.size - 2 * _TIME.size)[0])


def settled_contents(key: bytes, read_ns: int) -> bool:
    """Tell whether the contents were last changed long enough before they were read for a later change to show."""
    return memo_file.settled(modified_ns(key), read_ns)


def settled(key: bytes, read_ns: int) -> bool:
    """Tell whether the file was last changed long enough before it was read for a later change to show in its times."""
    _, _, _, modified, changed = _KEY.unpack(key)
    return memo_file.settled(modified, read_ns) and memo_file.settled(changed, read_ns)


def load(prefix: Path, host: Host, kind: str = "digests") -> DigestMemo:
    """Read the memo of an environment; one that is damaged counts as empty, and a note says so."""
    path = memo_path(kind, prefix, host)
    memo = DigestMemo(path=path)
    try:
        memo.known = _parse(read_own(path, _MAXIMUM_MEMO))
    except FileNotFoundError:
        pass
    except OSError as error:
        memo.notes.append(f"the digests of earlier runs cannot be read: {path}: {error.strerror or error}")
    except (ValueError, TypeError, RecursionError, struct.error) as error:
        memo.notes.append(f"the digests of earlier runs were damaged and are made again: {path}: {error}")
    return memo


def save(memo: DigestMemo, known: Mapping[str, Mapping[bytes, bytes]]) -> None:
    """Write the memo in one step: of two processes the later one wins, whole. What prevents it becomes a note."""
    if memo.path is None:
        return
    blocks = {
        algorithm: b"".join(key + digest for key, digest in digests.items())
        for algorithm, digests in known.items()
        if digests
    }
    layout = [[name, len(next(iter(known[name].values()))), len(known[name])] for name in blocks]
    body = json.dumps(layout).encode() + b"\n" + b"".join(blocks.values())
    try:
        write_memo(memo.path, _MAGIC + _checksum(body) + body)
    except OSError as error:
        memo.notes.append(f"the digests cannot be remembered: {error.filename or memo.path}: {error.strerror or error}")


def _parse(data: bytes) -> dict[str, dict[bytes, bytes]]:
    if not data.startswith(_MAGIC):
        raise ValueError("not a memo of this version")
    start = len(_MAGIC) + 8
    body = memoryview(data)[start:]
    if data[len(_MAGIC) : start] != _checksum(body):
        raise ValueError("its checksum does not fit")
    at = data.index(b"\n", start) + 1
    known: dict[str, dict[bytes, bytes]] = {}
    for algorithm, length, count in json.loads(data[start:at]):
        record = struct.Struct(f"{_KEY.size}s{length}s")
        known[algorithm] = dict(record.iter_unpack(memoryview(data)[at : at + record.size * count]))
        at += record.size * count
    if at != len(data):
        raise ValueError("its length does not fit")
    return known


def _checksum(body: bytes | memoryview) -> bytes:
    return b"%08x" % zlib.crc32(body)
