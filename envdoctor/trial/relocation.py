"""Files of a venv that name its folder, when that is another one: scripts, .pth files, and their rows in RECORDs."""

import csv
import hashlib
import io
import os
import stat
from collections.abc import Collection, Iterable
from pathlib import Path

from envdoctor.facts.regular_file import read_regular
from envdoctor.facts.whole_file import write_whole
from envdoctor.probes.venv.record_rows import parse_rows
from envdoctor.standards.recorded import hash_field
from envdoctor.trial.tree import moved, started_by

_MAXIMUM_TEXT = 1 << 20
_MAXIMUM_RECORD = 32 << 20


def relocate(venv: Path, names: Iterable[str], new: Path) -> None:
    """Put `new` for each of the names wherever a file of `venv` has it, and correct the rows of RECORDs for it.

    Every script is then started by a Python of `new`. Files are replaced, never written into: they may have other
    links.
    """
    restate(venv, [path for path in _candidates(venv) if _rewritten(path, names, str(new))])


def restate(venv: Path, changed: Iterable[Path]) -> None:
    """Correct the rows of RECORDs that state another hash for these files."""
    paths = set(changed)
    for record in venv.glob("lib/python3.*/site-packages/*.dist-info/RECORD"):
        _restate(record, paths)


def _candidates(venv: Path) -> list[Path]:
    return [
        *(path for path in (venv / "bin").iterdir() if path.is_file() and not path.is_symlink()),
        *venv.glob("lib/python3.*/site-packages/*.pth"),
        venv / "pyvenv.cfg",
    ]


def _rewritten(path: Path, names: Iterable[str], new: str) -> bool:
    try:
        content = read_regular(path, _MAXIMUM_TEXT)
    except OSError:
        return False  # larger than any script
    script = path.parent.name == "bin"
    made = moved(started_by(content, f"{new}/bin") if script else content, names, new)
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
        if row[1].startswith("sha256=") and path in changed and path.is_file():
            content = path.read_bytes()
            stated = [hash_field(hashlib.sha256(content).digest()), str(len(content))]
            found, row[1:] = found or row[1:] != stated, stated
    if found:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        write_whole(record, text.getvalue().encode("utf-8", "surrogateescape"), stat.S_IMODE(record.stat().st_mode))
