"""Which interpreter starts when a command is typed: the scripts' shebangs, and what stands first on PATH."""

import errno
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from envdoctor.facts.context import Reading
from envdoctor.facts.regular_file import read_prefix
from envdoctor.model.frozen import frozen
from envdoctor.model.pattern import pattern
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.probes.venv.interpreter import Interpreter
from envdoctor.probes.venv.records import index

COMMANDS = ("python", "python3", "torchrun", "accelerate", "deepspeed")
"""Commands whose worker processes inherit the interpreter of the one that was typed."""
_HEAD = 1024
_NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)
_ACTIVATE = 64 * 1024
_NAMES = pattern(
    r"""^[ \t]*(?:export )?VIRTUAL_ENV=(?:'(/[^'\n]*)'|"(/[^"$`\n]*)"|(/[^\s'"$`]*))[ \t\r]*$""", re.MULTILINE
)
# Where a path is too long for a kernel's shebang, or holds a blank, installers write a shell line that execs Python
# (distlib's and uv's trampoline): #!/bin/sh, then '''exec' '/path/python' "$0" "$@".
_TRAMPOLINE = pattern(r"""^'''exec' (?:'([^']*)'|"([^"$]*)"|([^\s"']+)) "\$0\"""", re.MULTILINE)


@frozen
class Launcher:
    """What one command name leads to."""

    command: str
    path: str
    """The first match on PATH."""
    interpreter: str
    """The Python its shebang names; empty when the file is not a Python script."""
    inside: bool
    """The path is in this environment's bin folder."""


@frozen
class StrayScript:
    """A script of the environment's bin folder that starts another Python, or what is not there."""

    name: str
    interpreter: str
    exists: bool
    owner: str
    """The distribution whose RECORD lists it, or empty."""
    foreign: bool = False
    """What it starts is not Python and not a file of this environment (perl): no reinstall brings that."""
    own: bool = False
    """What it starts is named in this environment's own bin folder, where nothing of that name is."""


@frozen
class Launchers:
    """Commands and scripts. Without a venv the bin folder is shared with the system: nothing is read."""

    on_path: bool
    """The environment's bin folder is on PATH, and no other environment is the activated one."""
    commands: tuple[Launcher, ...]
    """Only where `on_path`: elsewhere PATH is not meant to lead here."""
    scripts: int
    """Python scripts in the bin folder."""
    stray: tuple[StrayScript, ...]
    activates: str = ""
    """The folder that bin/activate names, where it is not this one."""


def probe(reading: Reading) -> Launchers:
    """Look the commands up on PATH and read the shebang of every script in a venv's bin folder."""
    if not reading.fact(Interpreter).is_venv:
        return Launchers(on_path=False, commands=(), scripts=0, stray=())
    folder = reading.target.prefix / "bin"
    environ = reading.host.environ
    path = environ.get("PATH", "")
    named = environ.get("VIRTUAL_ENV")
    meant = not named or _same(Path(named), reading.target.prefix)
    on_path = meant and any(_same(Path(element), folder) for element in path.split(os.pathsep) if element)
    scripts = list(_scripts(folder, reading.target.final))
    return Launchers(
        on_path=on_path,
        commands=tuple(_commands(path, folder)) if on_path else (),
        scripts=len(scripts),
        stray=tuple(_stray(reading, folder, scripts)),
        activates=_activates(reading.target.prefix),
    )


def _activates(prefix: Path) -> str:
    """Return the folder that bin/activate sets VIRTUAL_ENV to; empty for this one, and where it is computed."""
    try:
        text = read_prefix(prefix / "bin/activate", _ACTIVATE).decode("utf-8", "replace")
    except OSError:
        return ""
    # venv's script has one line for Cygwin too, which computes the folder from the same text.
    named = next((next(filter(None, match.groups())) for match in _NAMES.finditer(text)), "")
    return named if named and not _same(Path(named), prefix) else ""


def _commands(path: str, folder: Path) -> Iterator[Launcher]:
    for command in COMMANDS:
        found = shutil.which(command, path=path)
        if found is None:
            continue
        inside = _same(Path(found).parent, folder)
        interpreter = "" if inside else _interpreter(Path(found)) or ""
        yield Launcher(command=command, path=found, interpreter=interpreter, inside=inside)


def _scripts(folder: Path, final: Path | None) -> Iterator[tuple[str, str]]:
    """Yield (name, interpreter) of each script that starts a Python by its path, or by a path where nothing is."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        if not entry.is_file(follow_symlinks=False):
            continue
        interpreter = _started(Path(entry.path))
        if _is_python(interpreter) or (interpreter and not _exists(interpreter, folder, final)):
            yield entry.name, interpreter


def _interpreter(path: Path) -> str:
    """Return the absolute Python that a script starts; empty for anything else."""
    interpreter = _started(path)
    return interpreter if _is_python(interpreter) else ""


def _started(path: Path) -> str:
    """Return the absolute path that a script starts; empty for anything else."""
    try:
        text = read_prefix(path, _HEAD).decode("utf-8", "replace")
    except OSError:
        return ""
    if not text.startswith("#!"):
        return ""
    # The kernel takes a carriage return for a part of the name.
    line = text.partition("\n")[0][2:].strip(" \t").replace("\r", "\\r")
    interpreter = line.replace("\t", " ").split(" ")[0]
    if Path(interpreter).name == "sh" and (match := _TRAMPOLINE.search(text)):
        interpreter = next(filter(None, match.groups()), "")
    # No path holds a zero byte: the kernel starts nothing there.
    return interpreter if interpreter.startswith("/") and "\0" not in interpreter else ""


def _is_python(interpreter: str) -> bool:
    """Tell a path that is named as Pythons are."""
    return interpreter.rpartition("/")[2].startswith(("python", "pypy"))


def _exists(interpreter: str, folder: Path, final: Path | None) -> bool:
    """Tell whether a path is there, or will be where a copy is made for; one that may not be looked at counts."""
    path = Path(interpreter)
    if final is not None and path.parent == final / "bin":
        path = folder / path.name
    try:
        path.stat()
    except OSError as error:
        return error.errno not in _NOT_THERE
    return True


def _stray(reading: Reading, folder: Path, scripts: list[tuple[str, str]]) -> Iterator[StrayScript]:
    items = reading.fact(Distributions).items
    # The scripts of a copy start the interpreter of the place the copy is made for.
    homes = [folder] if reading.target.final is None else [folder, reading.target.final / "bin"]
    roots = [place.parent for place in homes]
    home: dict[Path, bool] = {}
    for name, interpreter in scripts:
        parent = Path(interpreter).parent
        if parent not in home:
            home[parent] = any(_same(parent, place) for place in homes)
        if not home[parent] or not _exists(interpreter, folder, reading.target.final):
            at = index(reading).owners.get(str(folder / name))
            owner = "" if at is None else items[at].name
            yield StrayScript(
                name=name,
                interpreter=interpreter,
                exists=_exists(interpreter, folder, reading.target.final),
                owner=owner,
                foreign=not (_is_python(interpreter) or home[parent] or _is_below(interpreter, roots)),
                own=home[parent],
            )


def _is_below(interpreter: str, roots: list[Path]) -> bool:
    return any(Path(interpreter).is_relative_to(root) for root in roots)


def _same(one: Path, other: Path) -> bool:
    try:
        return one == other or one.samefile(other)
    except (OSError, ValueError):
        return False
