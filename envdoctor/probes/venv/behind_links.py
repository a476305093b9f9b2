"""Files of a distribution behind a folder that is a link out of the environment: whether they are there, and how large.

An import follows such a link. Nothing behind it is opened, hashed or listed.
"""

import errno
import os
from collections.abc import Iterator, Sequence

from envdoctor.model.frozen import frozen
from envdoctor.probes.venv.distributions import Distribution
from envdoctor.probes.venv.record_rows import CODE_FILE, is_bytecode, recorded_size
from envdoctor.probes.venv.records import RecordIndex
from envdoctor.probes.venv.rows import Fields

_NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


@frozen
class BehindLink:
    """What one distribution has behind one link."""

    owner: str
    link: str
    """Relative to the prefix."""
    leads_to: str
    files: int
    """Rows behind it, bytecode left out."""
    missing: tuple[str, ...]
    """Rows, as written, of files that are not there."""
    resized: tuple[str, ...]
    """Rows, as written, of files with another size than recorded."""

    @property
    def lacks_code(self) -> bool:
        """Tell whether code is missing there, so that an import fails."""
        return any(CODE_FILE.search(path) for path in self.missing)


def behind_links(items: Sequence[Distribution], records: RecordIndex, prefix: str) -> Iterator[BehindLink]:
    """Yield what is behind each link. prefix: with a final slash."""
    for (at, link), listed in records.behind.items():
        item = items[at]
        rows = [row for row in listed if not is_bytecode(row[0], row[1])]
        sizes = {row[0]: _size(f"{item.site}/{row[0]}") for row in rows}
        yield BehindLink(
            owner=item.name,
            link=link.removeprefix(prefix),
            leads_to=os.path.realpath(link),
            files=len(rows),
            missing=tuple(row[0] for row in rows if sizes[row[0]] is None),
            resized=tuple(row[0] for row in rows if _differs(row, sizes[row[0]])),
        )


def elsewhere(items: Sequence[Distribution], records: RecordIndex) -> Iterator[tuple[str, str]]:
    """Yield (owner, row) of each row that leads out, and not behind such a link."""
    behind = {(at, row[0]) for (at, _), rows in records.behind.items() for row in rows}
    yield from ((items[at].name, path) for at, path in records.outside if (at, path) not in behind)


def _size(path: str) -> int | None:
    """Return the size of what a path leads to; None where nothing is there, -1 where it cannot be looked at."""
    try:
        return os.stat(path).st_size  # noqa: PTH116 - paths can be thousands
    except OSError as error:
        return None if error.errno in _NOT_THERE else -1


def _differs(row: Fields, size: int | None) -> bool:
    return size is not None and size >= 0 and recorded_size(row[2]) not in (-1, size)
