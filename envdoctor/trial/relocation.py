"""Files of a venv that name its folder, when that is another one: scripts, .pth files, and their rows in RECORDs."""

import csv
import hashlib
import io
import os
import stat
from collections.abc import Collection, Mapping
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

    A script that a Python of theirs starts, or one that is gone, is then started by that of `new`. Files are replaced,
    never written into: they may have other links. home: the folder for which the relative lines of .pth files were made
    that leave the venv; they become absolute.
    """
    held: dict[Path, list[bytes]] = {}
    for path in _candidates(venv):
        _rewrite(path, _relocated(path, venv, names, new, home), held)
    restate(venv, held)


def relate(venv: Path, original: VenvTree) -> None:
    """Put back the relative links and lines of .pth files that leave the venv, where the copy has them absolute."""
    held: dict[Path, list[bytes]] = {}
    for path, entry in original.entries.items():
        copy, folder = venv / path, path.rpartition("/")[0]
        if entry.is_link and leaves(folder, entry.leads_to) and copy.is_symlink():
            if os.readlink(copy) == original.leads_to(path, str(venv)):
                copy.unlink()
                copy.symlink_to(entry.leads_to)
        elif path.endswith(".pth") and names_root(path) and copy.is_file() and not entry.is_link:
            lines = leaving_lines(read_regular(f"{original.root}/{path}", _MAXIMUM_TEXT), folder, original.home)
            back = [(made, line) for line, made in lines]
            if back:
                _rewrite(copy, with_lines(read_regular(copy, _MAXIMUM_TEXT), back), held)
    restate(venv, held)


def restate(venv: Path, held: Mapping[Path, Collection[bytes]]) -> None:
    """Correct the rows of RECORDs for these files, each with what it may have held before, where the row states that.

    A file that somebody had edited is still not what its row states.
    """
    for record in venv.glob("lib/python3.*/site-packages/*.dist-info/RECORD"):
        _restate(record, held)


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
    return moved(started_by(content, f"{new}/bin", names) if script else content, names, str(new))


def _rewrite(path: Path, made: bytes | None, held: dict[Path, list[bytes]]) -> None:
    """Replace a file where its content is to be another; note in `held` what it was."""
    if made is None or made == (content := read_regular(path, _MAXIMUM_TEXT)):
        return
    mode = stat.S_IMODE(path.stat().st_mode)
    write_whole(path, made, mode)
    path.chmod(mode)
    held[path] = [content]


def _restate(record: Path, held: Mapping[Path, Collection[bytes]]) -> None:
    try:
        data = read_regular(record, _MAXIMUM_RECORD)
    except OSError:
        return
    site = record.parent.parent
    rows = [list(row) for row in parse_rows(data)[0]]
    found = False
    for row in rows:
        path = Path(os.path.normpath(f"{site}/{row[0]}"))
        if path in held and row[1] in (_stated(one)[0] for one in held[path]) and path.is_file():
            stated = _stated(path.read_bytes())
            found, row[1:] = found or row[1:] != stated, stated
    if found:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        write_whole(record, text.getvalue().encode("utf-8", "surrogateescape"), stat.S_IMODE(record.stat().st_mode))


def _stated(content: bytes) -> list[str]:
    return [hash_field(hashlib.sha256(content).digest()), str(len(content))]
