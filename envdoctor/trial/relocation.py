"""Files of a venv that name its folder, when that is another one: scripts, .pth files, and their rows in RECORDs."""

import csv
import hashlib
import io
import os
import stat
from collections.abc import Collection
from pathlib import Path

from envdoctor.facts.regular_file import read_regular
from envdoctor.facts.whole_file import write_whole
from envdoctor.probes.venv.records import parse_rows
from envdoctor.standards.recorded import hash_field
from envdoctor.trial.tree import moved

_MAXIMUM_TEXT = 1 << 20
_MAXIMUM_RECORD = 32 << 20


def relocate(venv: Path, old: Path, new: Path) -> None:
    """Put `new` for `old` wherever a file of `venv` names it, and correct the rows of RECORDs that state their hash.

    Files are replaced, never written into: they may have other links.
    """
    changed = {path for path in _candidates(venv) if _rewritten(path, str(old), str(new))}
    for record in venv.glob("lib/python3.*/site-packages/*.dist-info/RECORD"):
        _restate(record, changed)


def _candidates(venv: Path) -> list[Path]:
    return [
        *(path for path in (venv / "bin").iterdir() if path.is_file() and not path.is_symlink()),
        *venv.glob("lib/python3.*/site-packages/*.pth"),
        venv / "pyvenv.cfg",
    ]


def _rewritten(path: Path, old: str, new: str) -> bool:
    try:
        content = read_regular(path, _MAXIMUM_TEXT)
    except OSError:
        return False  # larger than any script
    made = moved(content, old, new)
    if made == content:
        return False
    mode = stat.S_IMODE(path.stat().st_mode)
    write_whole(path, made, mode)
    path.chmod(mode)
    return True


def _restate(record: Path, changed: Collection[Path]) -> None:
    try:
        data = read_regular(record, _MAXIMUM_RECORD)
    except OSError:
        return
    site = record.parent.parent
    rows = [list(row) for row in parse_rows(data)[0]]
    found = False
    for row in rows:
        path = Path(os.path.normpath(f"{site}/{row[0]}"))
        if row[1].startswith("sha256=") and path in changed:
            content = path.read_bytes()
            stated = [hash_field(hashlib.sha256(content).digest()), str(len(content))]
            found, row[1:] = found or row[1:] != stated, stated
    if found:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        write_whole(record, text.getvalue().encode("utf-8", "surrogateescape"), stat.S_IMODE(record.stat().st_mode))
