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
# Where this process is and keeps its things, also where that is in a venv.
_PLACES = ("PWD", "OLDPWD", "HOME", "TMPDIR")
_OF_UV = {"UV_NO_SYNC": "1"}
"""`uv run` takes the copy as it is; without it, it would first make the copy what the lock says."""


def launch_environment(
    environ: Mapping[str, str], venv: Path, more: Mapping[str, str | None], names: Collection[str] = ()
) -> dict[str, str]:
    """Return the variables of a command that is started in a venv; those of `more` are set, or unset where None.

    names: of the venvs that it stands for: what the variables say of them, as LD_LIBRARY_PATH, is said of it.
    """
    made = {name: value for name, value in environ.items() if name != "PYTHONHOME"}
    for name, value in made.items():
        if name not in _PLACES and any(one in value for one in names):
            made[name] = os.fsdecode(moved(os.fsencode(value), names, str(venv)))
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
    near = {os.path.relpath(name, cwd) for name in real if name.startswith(f"{cwd}/")}
    words = [_placed(word, real, near, str(copy), cwd) for word in command]
    return [*_starting(words[0], real, copy, cwd, search), *words[1:]]


def _placed(word: str, venvs: Mapping[str, str], near: Collection[str], copy: str, cwd: Path) -> str:
    # A relative word means the folder that the command works in, also where that is in a venv.
    inside = any(f"{cwd}/".startswith(f"{venv}/") for venv in (*venvs, *venvs.values()))
    path = os.path.normpath(cwd / word) if "/" in word and not (inside and word[0] != "/") else ""
    # Links in the last part are left as they are: a venv's Python leads out of it.
    folder, name = os.path.split(path)
    for whole in (path, f"{os.path.realpath(folder)}/{name}") if path else ():
        for venv in (*venvs, *venvs.values()):
            if whole.startswith(f"{venv}/"):
                return copy + whole[len(venv) :]
    content = moved(os.fsencode(word), {*venvs, *venvs.values()}, copy)
    for name in near:
        # Only what goes on below it: a plain `env` is a word like any other.
        content = moved(content, [f"{name}/bin"], f"{copy}/bin")
        content = moved(content, [f"./{name}/bin"], f"{copy}/bin")
    return os.fsdecode(content)


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
