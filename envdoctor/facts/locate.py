"""Which environment a command line means, and why: what people name, and what they leave out.

The order is uv's: $VIRTUAL_ENV, $CONDA_PREFIX (but for conda's base, which is active in every shell of its users), the
nearest `.venv` from the current folder upward. Nothing is run, and no link is followed out of sight: the path that is
returned is the one that the user knows.
"""

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

from envdoctor.errors import NoTargetError, TargetError
from envdoctor.facts import pyenv
from envdoctor.facts.host import Host
from envdoctor.facts.target import Target, looked_up, resolve, unusable
from envdoctor.model.frozen import frozen, replace

_BASES = frozenset({"base", "root"})
_ROOT_MARKS = ("etc/os-release", "usr/lib/os-release")
_FOLDERS = (".venv", "venv")
NAME_ONE = "name a venv folder or its interpreter: `envdoctor check path/to/.venv`"


@frozen
class Located:
    """One environment and why it was taken."""

    target: Target
    why: str = ""
    """As the end of "PATH, ...": "from $VIRTUAL_ENV"; empty where the path is the one that was named, or ./.venv."""


def locate(named: str, host: Host) -> Located:
    """Return the environment that was named, else the active or the nearest one; raise TargetError for none."""
    try:
        found = _named(named, host) if named else _default(host)
        _refuse_foreign_root(found.target.prefix)
    except OSError as error:
        raise unusable(Path(host.cwd, named), error) from error
    return found


def foreign_root(prefix: Path) -> Path | None:
    """Return the nearest folder above that is the root of another system, as of a mounted image; None for none."""
    # Not Path.is_file: that raises before Python 3.14 where a folder may not be entered.
    return next(
        (at for at in prefix.parents[:-1] if any(map(os.path.isfile, (at / mark for mark in _ROOT_MARKS)))), None
    )


def _refuse_foreign_root(prefix: Path) -> None:
    """Refuse what is inside another root folder: its absolute links and paths would be taken for this machine's."""
    folder = foreign_root(prefix)
    if folder is not None:
        inner = shlex.quote("/" + str(prefix.relative_to(folder)))
        raise TargetError(
            f"{prefix} is inside another root folder, {folder}: its absolute paths mean files of that root",
            f"check it as that root sees it: `envdoctor check --root {shlex.quote(str(folder))} {inner}`",
        )


def _default(host: Host) -> Located:
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        value = host.environ.get(variable, "")
        if value and (variable == "VIRTUAL_ENV" or host.environ.get("CONDA_DEFAULT_ENV") not in _BASES):
            return _by_variable(variable, value, host)
    beside = host.cwd / ".venv"
    if beside.is_dir():
        return Located(target=resolve(beside))
    for folder in _above(host):
        if _is_environment(folder / ".venv"):
            return Located(target=resolve(folder / ".venv"), why=f"found above {host.cwd}")
    if base := host.environ.get("CONDA_PREFIX", ""):
        return _by_variable("CONDA_PREFIX", base, host)
    raise NoTargetError(
        f"no venv named, VIRTUAL_ENV and CONDA_PREFIX are not set, and neither {host.cwd} nor a folder above it has a "
        ".venv",
        NAME_ONE,
    )


def without_conda(host: Host) -> Host:
    """Return the host as if no conda environment were active: what makes or changes venvs never means conda's."""
    return replace(host, environ={name: value for name, value in host.environ.items() if name != "CONDA_PREFIX"})


def _by_variable(variable: str, value: str, host: Host) -> Located:
    try:
        return Located(target=resolve(value, host.environ.get("PATH"), host.cwd), why=f"from ${variable}")
    except TargetError as error:
        raise TargetError(f"${variable}: {error.message}", f"`unset {variable}`, or {error.hint}") from error


def _above(host: Host) -> Iterator[Path]:
    """Yield the folders above the current one, up to the home folder and to the border of the file system."""
    try:
        device = host.cwd.stat().st_dev
        for folder in host.cwd.parents if host.cwd != host.home else ():
            if folder.stat().st_dev != device:
                return
            yield folder
            if folder == host.home:
                return
    except OSError:
        return


def _named(named: str, host: Host) -> Located:
    path = looked_up(named, host.environ.get("PATH"), host.cwd)
    if path.is_dir():
        return _folder(path)
    if not path.exists() and path.is_symlink() and not _is_environment(path.parent.parent):
        leads = os.path.normpath(path.parent / os.readlink(path))  # noqa: PTH115 - the link's text, as it stands
        raise TargetError(f"{path} is a dangling link: {leads} does not exist", NAME_ONE)
    if root := pyenv.shim_root(path):
        interpreter, why = pyenv.behind(path, root, host)
        return Located(target=_modern(resolve(interpreter)), why=f"behind the shim {path}: {why}")
    return Located(target=_modern(resolve(path)))


def _folder(path: Path) -> Located:
    if not _is_environment(path):
        for name in _FOLDERS:
            if _is_environment(path / name):
                return Located(target=_modern(resolve(path / name)), why=f"the {name} of that project")
        for holder, what in _holders(path):
            if _is_environment(holder):
                return Located(target=_modern(resolve(holder)), why=f"whose {what} was named")
    return Located(target=_modern(resolve(path)))


def _holders(path: Path) -> Iterator[tuple[Path, str]]:
    """Yield the prefix that a folder within an environment belongs to, where its name says so."""
    if path.name == "bin":
        yield path.parent, "bin folder"
    if path.name in ("site-packages", "dist-packages") and len(path.parents) > 3:
        yield path.parents[2], path.name
        yield path.parents[3], path.name  # Debian: /usr/local/lib/python3.12/dist-packages is read by /usr's Python


def _is_environment(folder: Path) -> bool:
    if (folder / "pyvenv.cfg").is_file():
        return True
    return any(os.path.lexists(folder / "bin" / name) for name in ("python", "python3", "python2"))


def _modern(target: Target) -> Target:
    """Return the target; raise TargetError for a Python 2."""
    library = target.prefix / "lib"
    try:
        names = os.listdir(library)  # noqa: PTH208 - names only
    except OSError:
        return target
    old = sorted(name for name in names if name.startswith("python2."))
    named_old = target.interpreter.name.startswith("python2") or os.path.basename(  # noqa: PTH119 - a string path
        os.path.realpath(target.interpreter)
    ).startswith("python2")
    if old and (named_old or not any(name.startswith("python3") for name in names)):
        raise TargetError(
            f"{target.prefix} is a Python {old[-1].removeprefix('python')}, which is not supported",
            "name an environment of Python 3.8 or newer",
        )
    return target
