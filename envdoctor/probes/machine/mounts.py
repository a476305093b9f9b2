"""Which filesystem a path lies on, from /proc/self/mountinfo."""

import os
import re
from pathlib import Path

from envdoctor.facts.host import Host

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
_OCTAL = re.compile(r"\\([0-7]{3})")


def filesystem_type(path: Path, host: Host) -> str:
    """Return the type of the mount with the longest prefix of `path` (symlinks resolved); empty when not known."""
    real = os.path.realpath(path)
    best, kind = "", ""
    try:
        lines = (host.proc / "self/mountinfo").read_text(errors="replace").splitlines()
    except OSError:
        return ""
    for line in lines:
        left, found, right = line.partition(" - ")
        fields = left.split()
        if not found or len(fields) < 5:
            continue
        # The kernel writes blanks and backslashes of a mount point as \040, \134.
        point = _OCTAL.sub(lambda match: chr(int(match[1], 8)), fields[4])
        if (real == point or real.startswith(point.rstrip("/") + "/")) and len(point) >= len(best):
            best, kind = point, right.split()[0]
    return kind
