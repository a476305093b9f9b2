"""One RECORD as what its index is made of; for a venv that is being built, before the build has come to its end.

Nothing of a RECORD that was read ahead counts but where the one that is there in the end has the same bytes.
"""

import os
from collections.abc import Sequence

from envdoctor.facts.regular_file import read_regular
from envdoctor.probes.venv.record_memo import Parsed
from envdoctor.probes.venv.record_rows import most_rows, parse_rows, unfit
from envdoctor.probes.venv.rows import Fields

_NOTES = (b"INSTALLER,", b"RECORD,", b"REQUESTED,", b"direct_url.json,", b"uv_cache.json,")
_MAXIMUM_BYTES = 16 * 1024 * 1024
"""Of all RECORDs that are read ahead."""


def parse(data: bytes, folder: str) -> tuple[Parsed, list[int]]:
    """Return a RECORD of that metadata folder, and the numbers of the lines that are not rows."""
    rows, bad = parse_rows(data)
    # No file can hold its own hash; uv keeps the size that a wheel states of its RECORD, and then adds rows.
    own = f"{folder}/RECORD"
    if f"{own},".encode("utf-8", "surrogateescape") in data or b'"' in data:
        rows = [(own, "", "") if row[0] == own else row for row in rows]
    odd = odd_rows(rows)
    left_out = set(odd)
    import hashlib  # noqa: PLC0415 - it loads OpenSSL, and few checks hash anything

    return Parsed(
        rows=rows,
        lines=most_rows(data),
        digest=hashlib.sha256(_of_wheel(data, folder)).hexdigest(),
        odd=[rows[number][0] for number in odd],
        folders=list({row[0].rpartition("/")[0]: 0 for at, row in enumerate(rows) if at not in left_out}),
        plain=bad is None,
    ), bad or []


class RecordsAhead:
    """RECORDs below a site folder in which an installer is at work, parsed as they appear."""

    def __init__(self) -> None:
        """Know of none."""
        self._seen: dict[str, tuple[int, ...]] = {}
        self._parsed: dict[str, tuple[bytes, tuple[Parsed, list[int]]]] = {}
        self._left = _MAXIMUM_BYTES

    def look(self, site: str) -> None:
        """Parse the RECORDs that are as they were at the last look: the installer has gone on to other files."""
        try:
            folders = [name for name in os.listdir(site) if name.endswith(".dist-info")]  # noqa: PTH208 - names only
        except OSError:
            return  # not there yet
        for folder in folders:
            if folder in self._parsed:
                continue
            path = f"{site}/{folder}/RECORD"
            try:
                status = os.stat(path, follow_symlinks=False)  # noqa: PTH116 - a string path
                now = (status.st_ino, status.st_size, status.st_mtime_ns)
                if self._seen.get(folder) == now and status.st_size <= self._left:
                    data = read_regular(path, self._left)
                    self._left -= len(data)
                    if not unfit(data):
                        self._parsed[folder] = data, parse(data, folder)
            except OSError:
                continue  # what is wrong with it is said at the end
            self._seen[folder] = now

    def get(self, folder: str, data: bytes) -> tuple[Parsed, list[int]] | None:
        """Return what `parse` gives for these bytes, where it is known."""
        known = self._parsed.get(folder)
        return known[1] if known is not None and known[0] == data else None


def odd_rows(rows: Sequence[Fields]) -> list[int]:
    """Return the numbers of the rows whose path, put behind its site folder, is not yet absolute and normalized."""
    written = "\n".join(["", *[row[0] for row in rows], ""])
    if not any(sign in written for sign in ("\n/", "\n.", "\n\n", "/\n", "/.", "//", "\0")):
        return []
    # Nearly every distribution with scripts lists a few `../../../bin/x`, and nothing else that is odd.
    at_first = [number for number, row in enumerate(rows) if row[0][:1] in "./"]
    of_them = "\n".join(["", *[rows[number][0] for number in at_first], ""])
    if all(written.count(sign) == of_them.count(sign) for sign in ("/\n", "/.", "//", "\0")):
        return at_first
    return [
        number
        for number, (path, _, _) in enumerate(rows)
        if not path or path[0] in "./" or path.endswith("/") or "/." in path or "//" in path or "\0" in path
    ]


def _of_wheel(data: bytes, folder: str) -> bytes:
    """Return RECORD without the rows that differ between two installs of one wheel.

    Those are scripts, whose first line names the interpreter, and the installer's notes in dist-info. Installers sort
    the rows by path, so scripts come first and dist-info is one block.
    """
    start = 0
    while data.startswith(b"../", start):
        start = data.find(b"\n", start) + 1 or len(data)
    data = b"\n" + data[start:]
    prefix = f"\n{folder}/".encode("utf-8", "surrogateescape")
    first, last = data.find(prefix), data.rfind(prefix)
    if first < 0:
        return data
    end = data.find(b"\n", last + 1)
    end = len(data) if end < 0 else end
    rows = data[first:end].split(prefix)[1:]
    kept = [prefix + row for row in rows if not row.startswith(_NOTES)]
    return data[:first] + b"".join(kept) + data[end:]
