"""Which filesystem a path is on, from /proc/self/mountinfo."""

import os
from functools import lru_cache
from pathlib import Path

from envdoctor.facts.host import Host
from envdoctor.model.frozen import frozen
from envdoctor.model.pattern import pattern

NETWORK = frozenset(
    {
        "nfs",
        "nfs4",
        "lustre",
        "gpfs",
        "ceph",
        "fuse.sshfs",
        "beegfs",
        "cifs",
        "smb3",
        "glusterfs",
        "fuse.glusterfs",
        "9p",
        "afs",
        "wekafs",
        "fuse.juicefs",
        "fuse.s3fs",
        "fuse.gcsfuse",
    }
)
"""Filesystem types that several nodes can share."""
_Line = tuple[str, str, tuple[str, ...]]
_OCTAL = pattern(r"\\([0-7]{3})")


@frozen
class Mount:
    """The mount that a path is on."""

    point: str
    """Empty when no mount table could be read."""
    type: str
    options: tuple[str, ...]
    """Of the mount and of the filesystem: "rw", "noexec", "ro"."""


def mount_of(path: Path, host: Host) -> Mount:
    """Return the mount with the longest prefix of `path` (symlinks resolved), the last of equals."""
    real = os.path.realpath(path)
    best = Mount(point="", type="", options=())
    for point, kind, options in _mounts(host):
        if (real == point or real.startswith(point.rstrip("/") + "/")) and len(point) >= len(best.point):
            best = Mount(point=point, type=kind, options=options)
    return best


def _mounts(host: Host) -> tuple[_Line, ...]:
    try:
        return _parsed((host.proc / "self/mountinfo").read_text(errors="replace"))
    except OSError:
        return ()


@lru_cache(maxsize=1)
def _parsed(text: str) -> tuple[_Line, ...]:
    """Return (mount point, type, options) of each line of mountinfo (proc(5)); every cache folder asks for them."""
    return tuple(filter(None, map(_line, text.splitlines())))


def _line(line: str) -> _Line | None:
    left, found, right = line.partition(" - ")
    fields, behind = left.split(), right.split()
    if not found or len(fields) < 6 or not behind:
        return None
    # The kernel writes blanks and backslashes of a mount point as \040, \134.
    point = _OCTAL.sub(lambda match: chr(int(match[1], 8)), fields[4])
    return point, behind[0], (*fields[5].split(","), *(behind[2].split(",") if len(behind) > 2 else ()))
