"""The first look at the files of every RECORD: which are there in the recorded size, and which need a second one.

Nearly all system calls of a check are these, 26,000 in a stack of 90 distributions, and of a healthy stack the answer
is one number for each distribution. So another process can look (second_process) while this one reads what the other
probes read. What is not plainly as recorded is only named here; `installed_files` looks at it again and judges.
"""

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from envdoctor.facts.context import Reading
from envdoctor.facts.second_process import ChildsWork, beside
from envdoctor.model.frozen import frozen
from envdoctor.probes.venv.distributions import Distribution, Distributions
from envdoctor.probes.venv.record_rows import BYTECODE, is_bytecode
from envdoctor.probes.venv.records import RecordIndex, index
from envdoctor.probes.venv.rows import Fields, paths_and_sizes

_WORTH_A_PROCESS = 5_000
"""Rows. To start a process and hear from it takes as long as a look at 2,000 files."""
_READABLE_BY_ALL = stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH
KIND_AND_READABLE = 0o170000 | _READABLE_BY_ALL
PLAIN = stat.S_IFREG | _READABLE_BY_ALL


@frozen
class Looked:
    """What was seen of one distribution's files."""

    plain_bytes: int
    """Of all files that are there in the size that is recorded, if one is, regular and readable by everybody."""
    odd: tuple[Fields, ...]
    """The other rows. Bytecode is in neither: each interpreter writes its own."""


@contextmanager
def looking_beside(reading: Reading) -> Iterator[bool]:
    """Have another process look while the block reads other facts, where the environment is large enough for it.

    Gives whether one does. With `deep` every file is hashed, which needs what a look at each of them gives.
    """
    try:
        records = index(reading)
        items = reading.fact(Distributions).items
        rows = sum(map(len, records.rows.values()))
    except Exception:  # noqa: BLE001 - the probe that asks for it says why, a fault of ours too
        rows = 0
    if reading.options.deep or rows < _WORTH_A_PROCESS:
        yield False
        return
    with beside(lambda: _look(items, records)) as begun:
        reading.shared[Looked] = begun
        yield bool(begun.child)


def first_look(reading: Reading) -> Mapping[int, Looked]:
    """Return what was seen, by the distribution's index in `Distributions.items`. Raises OSError for a site folder."""
    begun = reading.shared.pop(Looked, None)
    items, records = reading.fact(Distributions).items, index(reading)
    seen = begun.result() if isinstance(begun, ChildsWork) else _look(items, records)
    return {at: Looked(plain_bytes=plain, odd=tuple(odd)) for at, plain, odd in seen}


def _look(items: Sequence[Distribution], records: RecordIndex) -> list[tuple[int, int, list[Fields]]]:
    return [(at, *_plain(items[at].site, rows)) for at, rows in records.rows.items()]


def _plain(folder: str, rows: Sequence[Fields]) -> tuple[int, list[Fields]]:
    odd: list[int] = []
    total, stat_at = 0, os.stat
    # Relative to the open site folder the kernel walks a third of each path, 25,000 times.
    site = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for number, (path, recorded) in enumerate(paths_and_sizes(rows)):
            if path.endswith(BYTECODE) and is_bytecode(path, recorded):
                continue
            try:
                status = stat_at(path, dir_fd=site)
            except (OSError, ValueError):
                odd.append(number)
                continue
            size = status.st_size
            if (recorded and str(size) != recorded) or status.st_mode & KIND_AND_READABLE != PLAIN or "/bin/" in path:
                odd.append(number)
            else:
                total += size
    finally:
        os.close(site)
    return total, [rows[number] for number in odd]
