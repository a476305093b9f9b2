"""Which tool wrote a lock, read from its file name, and the command that brings an environment to it."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from envdoctor.errors import LockError, UsageError
from envdoctor.model.frozen import frozen
from envdoctor.standards.pylock import is_pylock

Kind = Literal["uv", "Poetry", "PDM", "pylock", "requirements", "conda-lock"]
_NAMES: dict[str, Kind] = {"uv.lock": "uv", "poetry.lock": "Poetry", "pdm.lock": "PDM"}
KNOWN = "uv.lock, poetry.lock, pdm.lock, pylock.toml, pylock.NAME.toml, requirements as NAME.txt, or conda-lock.yml"


@frozen
class LockFile:
    """A lock as it was named, and the part of it that is meant."""

    path: Path
    """Absolute."""
    kind: Kind
    extras: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    """Dependency groups besides the ones that the tool takes by default."""

    @property
    def folder(self) -> Path:
        """Return the project's folder."""
        return self.path.parent

    def install_command(self) -> str:
        """Return the command that installs it into an environment, `{python}` and `{prefix}` not filled in.

        Empty where no one command does. What else is installed stays.
        """
        project, file = shlex.quote(str(self.folder)), shlex.quote(str(self.path))
        if self.kind == "uv":
            chosen = "".join(self.chosen("--extra", "--group", joint=" "))
            return f"UV_PROJECT_ENVIRONMENT={{prefix}} uv sync --frozen --inexact --project {project}{chosen}"
        if self.kind == "Poetry":
            chosen = "".join(self.chosen("--extras", "--with", joint=" "))
            return f"VIRTUAL_ENV={{prefix}} poetry install --directory {project}{chosen}"
        if self.kind == "PDM":
            chosen = "".join(self.chosen("--group", "--group", joint=" "))
            return f"PDM_IGNORE_SAVED_PYTHON=1 VIRTUAL_ENV={{prefix}} pdm sync --project {project}{chosen}"
        if self.kind in ("pylock", "requirements"):
            chosen = "".join(self.chosen("--extra", "--group", joint=" "))
            return f"uv pip install --python {{python}} --no-deps --requirements {file}{chosen}"
        return ""

    def chosen(self, extra: str, group: str, *, joint: str) -> list[str]:
        """Return the options that choose its extras and groups, each with `joint` in front of its words."""
        words = [word for name in self.extras for word in (extra, name)]
        words += [word for name in self.groups for word in (group, name)]
        return [joint + shlex.quote(word) if joint else word for word in words]


def lock_file(named: str, cwd: Path, extras: Sequence[str] = (), groups: Sequence[str] = ()) -> LockFile:
    """Return the lock that was named; a project's folder means the one lock in it.

    Raises UsageError for a name that no tool gives to a lock, LockError for a file that is not there.
    """
    path = Path(cwd, named)
    if path.is_dir():
        path = _only_lock(path)
    if not path.is_file():
        raise LockError(f"{path}: no such file", f"name a lock: {KNOWN}")
    kind = kind_of(path.name)
    if kind is None:
        raise UsageError(f"{path.name} is not the name of a lock that can be read", f"known are {KNOWN}")
    if kind in ("requirements", "conda-lock") and (extras or groups):
        raise UsageError(f"{path.name} has no extras and no dependency groups", "omit `--extra` and `--group`")
    return LockFile(path=path, kind=kind, extras=tuple(extras), groups=tuple(groups))


def kind_of(name: str) -> Kind | None:
    """Return who writes locks of that file name; None for a name that no tool gives to one."""
    if name in _NAMES:
        return _NAMES[name]
    if is_pylock(name):
        return "pylock"
    if name.endswith(("conda-lock.yml", "conda-lock.yaml")):
        return "conda-lock"
    return "requirements" if name.endswith(".txt") else None


def _only_lock(folder: Path) -> Path:
    found = sorted(path for path in folder.iterdir() if path.suffix != ".txt" and kind_of(path.name))
    if len(found) != 1:
        told = ", ".join(path.name for path in found) or "none"
        raise UsageError(f"{folder} is a folder, and the locks in it are: {told}", f"name the file: {KNOWN}")
    return found[0]
