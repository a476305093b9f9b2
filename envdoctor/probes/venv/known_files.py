"""The files that an earlier restore read and nobody has changed since, counted in one pass; the other rows are named.

Nearly every file of a restored copy is one of them. Each is looked at once, and nothing is made of it: it is regular,
readable by everybody, in the recorded size, and its device, inode, size and time of last change of contents are those
of a file whose sha256 was then the recorded one (`verified_contents`). A row that is not all of this, and every row of
bytecode or of a program, is left for `installed_files` to judge.
"""

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from envdoctor.probes.venv.digest_memo import pack_content_key
from envdoctor.probes.venv.first_look import KIND_AND_READABLE, PLAIN
from envdoctor.probes.venv.record_rows import BYTECODE
from envdoctor.probes.venv.rows import Fields

_SHA256 = "sha256="


class KnownFiles(NamedTuple):
    """What was seen of one distribution's files."""

    files: int
    """Known ones."""
    total: int
    """Bytes in them."""
    others: list[Fields]
    """The other rows."""


def known_files(folder: str, rows: Sequence[Fields], proven: Mapping[bytes, bytes]) -> KnownFiles:
    """Look at the file of each row below a site folder. Raises OSError for the folder itself.

    proven: content key (digest_memo) -> sha256 as RECORD writes it.
    """
    others: list[Fields] = []
    total, stat_at, pack, known = 0, os.stat, pack_content_key, proven.get
    # Relative to the open site folder the kernel walks a third of each path, 25,000 times.
    site = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for row in rows:
            path, stated, recorded = row
            if "/bin/" not in path and not path.endswith(BYTECODE):
                try:
                    status = stat_at(path, dir_fd=site)
                except (OSError, ValueError):
                    others.append(row)
                    continue
                size = status.st_size
                if (
                    status.st_mode & KIND_AND_READABLE == PLAIN
                    and str(size) == recorded
                    and (digest := known(pack(status.st_dev, status.st_ino, size, status.st_mtime_ns)))
                    and stated.startswith(_SHA256)
                    and digest == stated[len(_SHA256) :].encode("utf-8", "replace")
                ):
                    total += size
                    continue
            others.append(row)
    finally:
        os.close(site)
    return KnownFiles(len(rows) - len(others), total, others)
