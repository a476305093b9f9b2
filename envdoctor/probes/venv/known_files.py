"""The files that an earlier restore read and nobody has changed since, counted in one pass; the other rows are named.

Nearly every file of a restored copy is one of them. Each is looked at once, and nothing is made of it: it is regular,
readable by everybody, in the recorded size, and its device, inode, size and time of last change of contents are those
of a file whose sha256 was then the recorded one (`verified_contents`). A row that is not all of this, and every row of
bytecode or of a program, is left for `installed_files` to judge. Another process can look, as it does for `first_look`.
"""

import os
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from envdoctor.facts.context import Reading
from envdoctor.facts.second_process import ChildsWork, beside
from envdoctor.probes.loading.comparison import comparison
from envdoctor.probes.venv.digest_memo import pack_content_key
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.probes.venv.first_look import KIND_AND_READABLE, PLAIN
from envdoctor.probes.venv.record_rows import BYTECODE, is_bytecode
from envdoctor.probes.venv.records import index
from envdoctor.probes.venv.rows import Fields

_SHA256 = "sha256="


class KnownFiles(NamedTuple):
    """What was seen of one distribution's files."""

    files: int
    """Known ones."""
    total: int
    """Bytes in them."""
    read: int
    """Those of them that this run read, while the environment was being built."""
    read_bytes: int
    others: list[Fields]
    """The other rows."""


@contextmanager
def looking_at_known(reading: Reading, *, all_are_ours: bool) -> Iterator[None]:
    """Have another process look while the block reads other facts, where something is known of the files.

    all_are_ours: as for `second_process.beside`. The RECORDs and the distributions have been read.
    """
    if not comparison(reading).by_contents_alone:
        yield
        return
    with beside(lambda: _look(reading), all_are_ours=all_are_ours) as begun:
        reading.shared[KnownFiles] = begun
        yield


def known_rows(reading: Reading) -> Callable[[int], KnownFiles | None]:
    """Return what was seen of a distribution by its index in `Distributions.items`; None where nothing is known.

    The other process looked at all of them; without one each is looked at when it is asked for.
    """
    items, records, compared = reading.fact(Distributions).items, index(reading), comparison(reading)
    if not compared.by_contents_alone:
        return lambda _: None
    begun = reading.shared.pop(KnownFiles, None)
    if not isinstance(begun, ChildsWork):
        return lambda at: known_files(items[at].site, records.rows[at], compared.digests.proven, compared.digests.ahead)
    seen = {at: told for at, *told in begun.result()}

    def told(at: int) -> KnownFiles:
        files, total, read, read_bytes, numbers = seen[at]
        rows = records.rows[at]
        return KnownFiles(files, total, read, read_bytes, [rows[number] for number in numbers])

    return told


def _look(reading: Reading) -> list[tuple[int, int, int, int, int, list[int]]]:
    items, digests = reading.fact(Distributions).items, comparison(reading).digests
    return [
        (at, *_seen(items[at].site, rows, digests.proven, digests.ahead)) for at, rows in index(reading).rows.items()
    ]


def known_files(
    folder: str, rows: Sequence[Fields], proven: Mapping[bytes, bytes], ahead: Container[bytes] = ()
) -> KnownFiles:
    """Look at the file of each row below a site folder. Raises OSError for the folder itself.

    proven: content key (digest_memo) -> sha256 as RECORD writes it. ahead: those that this run read.
    """
    files, total, read, read_bytes, others = _seen(folder, rows, proven, ahead)
    return KnownFiles(files, total, read, read_bytes, [rows[number] for number in others])


def _seen(
    folder: str, rows: Sequence[Fields], proven: Mapping[bytes, bytes], ahead: Container[bytes]
) -> tuple[int, int, int, int, list[int]]:
    """Return the count and bytes of the known ones, of those read ahead, and the numbers of the other rows."""
    others: list[int] = []
    read, read_bytes = 0, 0
    total, stat_at, pack, known = 0, os.stat, pack_content_key, proven.get
    # Relative to the open site folder the kernel walks a third of each path, 25,000 times.
    site = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for number, (path, stated, recorded) in enumerate(rows):
            if "/bin/" not in path and not (path.endswith(BYTECODE) and is_bytecode(path, stated)):
                try:
                    status = stat_at(path, dir_fd=site)
                except (OSError, ValueError):
                    others.append(number)
                    continue
                size = status.st_size
                if (
                    status.st_mode & KIND_AND_READABLE == PLAIN
                    and str(size) == recorded
                    and (digest := known(key := pack(status.st_dev, status.st_ino, size, status.st_mtime_ns)))
                    and stated.startswith(_SHA256)
                    and digest == stated[len(_SHA256) :].encode("utf-8", "replace")
                ):
                    total += size
                    if ahead and key in ahead:
                        read += 1
                        read_bytes += size
                    continue
            others.append(number)
    finally:
        os.close(site)
    return len(rows) - len(others), total, read, read_bytes, others
