"""A command as it is started in a copy: what it says of a venv that the copy stands for is said of the copy."""

import os
import re
import shlex
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from envdoctor.facts.regular_file import read_prefix
from envdoctor.trial.renamed import moved

# A Python by its absolute path, with at most one word of options, as the kernel takes it (execve(2)).
_FIRST_LINE = re.compile(rb"\A#![ \t]*(/[^\s]+)/(python[\d.]*)(?:[ \t]+([^\n]*?))?[ \t]*\n")
_LONGEST_LINE = 256
_PYTHON = re.compile(r"python[\d.]*")
# A piece of a word or of a variable that can be a relative path: it has a slash, or begins with a dot. A plain `env` is
# a word like any other.
_ENDS = r"""\s"'`;&|()<>{}\[\]=:,"""
_RELATIVE = re.compile(rf"(?<![^{_ENDS}])(?:\.[^{_ENDS}$]*|[^{_ENDS}$/-][^{_ENDS}$/]*/[^{_ENDS}$]*)")
# Where this process is and keeps its things, also where that is in a venv.
_PLACES = ("PWD", "OLDPWD", "HOME", "TMPDIR")
_OF_UV = {"UV_NO_SYNC": "1"}
"""`uv run` takes the copy as it is; without it, it would first make the copy what the lock says."""


def launch_environment(
    environ: Mapping[str, str],
    venv: Path,
    more: Mapping[str, str | None],
    names: Collection[str] = (),
    cwd: Path | None = None,
) -> dict[str, str]:
    """Return the variables of a command that is started in a venv; those of `more` are set, or unset where None.

    names: of the venvs that it stands for: what the variables say of them, as LD_LIBRARY_PATH, is said of it. cwd: what
    relative paths in them start from.
    """
    made = {name: value for name, value in environ.items() if name != "PYTHONHOME"}
    real = {name: os.path.realpath(name) for name in names}
    for name, value in made.items():
        if name not in _PLACES and names:
            made[name] = os.fsdecode(moved(os.fsencode(value), names, str(venv)))
            if cwd is not None:
                made[name] = _RELATIVE.sub(lambda token: _relative(token[0], real, str(venv), cwd), made[name])
    for name, wanted in more.items():
        made.pop(name, None)
        if wanted is not None:
            made[name] = wanted
    path = made.get("PATH", os.defpath)
    return made | {
        "VIRTUAL_ENV": str(venv),
        "UV_PROJECT_ENVIRONMENT": str(venv),
        "PATH": os.pathsep.join((f"{venv}/bin", path)),
    }


def tested_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a command that is to judge a copy and not to change it."""
    return {**environment, **_OF_UV}


def placed(command: Sequence[str], venvs: Iterable[str], copy: Path, cwd: Path, search: str = "") -> list[str]:
    """Return the command with the copy in place of a venv that is copied, wherever a word names a path in it.

    A path may be relative to `cwd` and go through links; one inside of a word, as in `sh -c`, is found as the venvs
    are named. A script whose first line names the Python of such a venv is started by the copy's. search: the PATH on
    which the program is found.
    """
    real = {name: os.path.realpath(name) for name in venvs}
    words = [_placed(word, real, str(copy), cwd) for word in command]
    return [*_starting(words[0], real, copy, cwd, search), *words[1:]]


def _placed(word: str, venvs: Mapping[str, str], copy: str, cwd: Path) -> str:
    if "/" in word and (inside := _below(word, venvs, cwd)) is not None:  # whole, with the blanks in its name
        return copy + inside
    content = moved(os.fsencode(word), {*venvs, *venvs.values()}, copy)
    return _RELATIVE.sub(lambda token: _relative(token[0], venvs, copy, cwd), os.fsdecode(content))


def _relative(token: str, venvs: Mapping[str, str], copy: str, cwd: Path) -> str:
    """Return a piece of a word, in the copy where it is a relative path of a venv or of what is in it."""
    inside = None if token in (".", "..") else _below(token, venvs, cwd)
    return token if inside is None else copy + inside


def _below(path: str, venvs: Mapping[str, str], cwd: Path) -> str | None:
    """Return what a path has behind a venv; None for a path that leads into none."""
    whole = os.path.normpath(cwd / path)
    # Links in the last part are left as they are: a venv's Python leads out of it.
    folder, name = os.path.split(whole)
    for at in (whole, f"{os.path.realpath(folder)}/{name}"):
        for venv in (*venvs, *venvs.values()):
            if at == venv or at.startswith(f"{venv}/"):
                return at[len(venv) :]
    return None


def _starting(program: str, venvs: Mapping[str, str], copy: Path, cwd: Path, search: str) -> list[str]:
    """Return the program, behind the copy's Python where its first line names that of a venv."""
    own = f"{copy}/bin/{program}"
    if "/" not in program and (os.path.lexists(own) or _PYTHON.fullmatch(program)) and not os.access(own, os.X_OK):
        return [own]  # what cannot be started in the copy is not to be started from further down on PATH
    path = str(cwd / program) if "/" in program else shutil.which(program, path=f"{copy}/bin{os.pathsep}{search}")
    if path is None or path.startswith(f"{copy}/"):
        return [program]
    try:
        line = _FIRST_LINE.match(read_prefix(Path(path), _LONGEST_LINE))
    except OSError:
        return [program]
    folder = os.path.realpath(os.fsdecode(line[1])) if line else ""
    if line is None or not any(folder == f"{venv}/bin" for venv in venvs.values()):
        return [program]
    options = [os.fsdecode(line[3])] if line[3] else []
    return [f"{copy}/bin/{line[2].decode()}", *options, path]


def as_typed(command: Sequence[str]) -> str:
    """Return a command as a shell takes it."""
    return shlex.join(command)
