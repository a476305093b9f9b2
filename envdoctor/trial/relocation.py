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
from envdoctor.swap.outward_links import leaves, leaving_lines, with_lines
from envdoctor.trial.renamed import moved, moved_pth, started_by
from envdoctor.trial.tree import VenvTree, names_root

_MAXIMUM_TEXT = 1 << 20
_MAXIMUM_RECORD = 32 << 20


def relocate(venv: Path, names: Collection[str], new: Path, home: Path | None = None) -> None:
    """Put `new` for each of the names wherever a file of `venv` has it, and correct the rows of RECORDs for it.

    Every script is then started by a Python of `new`. Files are replaced, never written into: they may have other
    links. home: the folder for which the relative lines of .pth files were made that leave the venv; they become
    absolute.
    """
    restate(venv, [path for path in _candidates(venv) if _rewritten(path, _relocated(path, venv, names, new, home))])


def relate(venv: Path, original: VenvTree) -> None:
    """Put back the relative links and lines of .pth files that leave the venv, where the copy has them absolute."""
    changed = []
    for path, entry in original.entries.items():
        copy, folder = venv / path, path.rpartition("/")[0]
        if entry.is_link and leaves(folder, entry.leads_to) and copy.is_symlink():
            if os.readlink(copy) == original.leads_to(path, str(venv)):
                copy.unlink()
                copy.symlink_to(entry.leads_to)
        elif path.endswith(".pth") and names_root(path) and copy.is_file() and not entry.is_link:
            lines = leaving_lines(read_regular(f"{original.root}/{path}", _MAXIMUM_TEXT), folder, original.home)
            back = [(made, line) for line, made in lines]
            if back and _rewritten(copy, with_lines(read_regular(copy, _MAXIMUM_TEXT), back)):
                changed.append(copy)
    restate(venv, changed)


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


def _relocated(path: Path, venv: Path, names: Collection[str], new: Path, home: Path | None) -> bytes | None:
    try:
        content = read_regular(path, _MAXIMUM_TEXT)
    except OSError:
        return None  # larger than any script
    if path.suffix == ".pth":
        if home is not None:
            content = with_lines(content, leaving_lines(content, str(path.parent.relative_to(venv)), str(home)))
        return moved_pth(content, names, str(new))
    script = path.parent.name == "bin"
    return moved(started_by(content, f"{new}/bin") if script else content, names, str(new))


def _rewritten(path: Path, made: bytes | None) -> bool:
    """Replace a file where its content is to be another; tell whether it was."""
    if made is None or made == read_regular(path, _MAXIMUM_TEXT):
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
