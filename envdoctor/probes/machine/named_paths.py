"""Variables that name a file, a folder or a program, and whether it is there."""

import os
import shlex
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from envdoctor.catalog.variables import KnownVariable, collected, known
from envdoctor.facts.context import Reading
from envdoctor.facts.host import Host
from envdoctor.model.frozen import frozen

Problem = Literal["does not exist", "is not a directory", "is not a file", "is not executable", "cannot be written"]


@frozen
class WrongPath:
    """One variable whose value names nothing that fits."""

    variable: str
    value: str
    named: str
    """The path or program that was looked for: of a command line its first word."""
    problem: Problem
    instead: str
    """A value that fits, found in the value itself or on PATH; empty when there is none."""


@frozen
class NamedPaths:
    """The variables of `envdoctor/catalog/variables.py` that name a path, as far as one is wrong."""

    wrong: tuple[WrongPath, ...]


def probe(reading: Reading) -> NamedPaths:
    """Look at each path that a set variable names."""
    return NamedPaths(wrong=tuple(_wrong(reading.host)))


def _wrong(host: Host) -> Iterator[WrongPath]:
    for name, value in sorted(host.environ.items()):
        row = known(name) if value and collected(name) else None
        if row is None or not row.kind:
            continue
        named = _first_word(value) if row.kind == "command" else value
        if problem := _problem(row, named, host):
            yield WrongPath(
                variable=name, value=value, named=named, problem=problem, instead=_instead(row, value, host)
            )


def _first_word(value: str) -> str:
    """Return the program of a command line ("ccache g++"); of one that no shell would read, all of it."""
    try:
        return next(iter(shlex.split(value)), value)
    except ValueError:
        return value


def _problem(row: KnownVariable, named: str, host: Host) -> Problem | None:
    path = host.cwd / named
    if row.kind == "command" and "/" not in named:
        return None if shutil.which(named, path=host.environ.get("PATH", "")) else "does not exist"
    if row.kind == "made folder":
        return _not_made(path)
    try:
        mode = path.stat().st_mode
    except OSError:
        return "does not exist"
    return _of_another_kind(row, path, mode)


def _of_another_kind(row: KnownVariable, path: Path, mode: int) -> Problem | None:
    folder = stat.S_ISDIR(mode)
    if row.kind == "folder":
        return None if folder else "is not a directory"
    if row.kind == "file or folder" and folder:
        return None
    if not stat.S_ISREG(mode):
        return "is not a file"
    return "is not executable" if row.kind in ("program", "command") and not os.access(path, os.X_OK) else None


def _not_made(path: Path) -> Problem | None:
    """Return why a folder that is made when it is needed is not there and cannot be made, or cannot be written."""
    nearest = next((at for at in (path, *path.parents) if os.path.lexists(at)), path)
    if not nearest.is_dir():
        return "is not a directory"
    return None if os.access(nearest, os.W_OK | os.X_OK) else "cannot be written"


def _instead(row: KnownVariable, value: str, host: Host) -> str:
    """Return what was probably meant: of a list its first folder, of a program the one of that name on PATH."""
    if row.kind == "folder" and ":" in value:
        return next((element for element in value.split(":") if element and (host.cwd / element).is_dir()), "")
    if row.kind == "program":
        return shutil.which(Path(value).name, path=host.environ.get("PATH", "")) or ""
    return ""
