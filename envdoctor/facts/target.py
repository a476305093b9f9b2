"""Which environment to look at: a folder or an interpreter, resolved without running anything."""

import os
import shutil
from pathlib import Path

from envdoctor.errors import TargetError, closed_place
from envdoctor.model.frozen import frozen


@frozen
class Target:
    """A Python environment on disk."""

    prefix: Path
    """Absolute; not resolved through symlinks, so that findings show the path the user knows."""
    interpreter: Path
    """The interpreter's path inside the prefix; it may dangle."""
    final: Path | None = None
    """Where the folder is about to be renamed to, for a copy: what its files name by absolute path is there."""

    def here(self, path: Path) -> Path:
        """Return a path that a file of the environment names, as it is found now: inside the copy, for a copy."""
        if self.final is not None and path.is_relative_to(self.final):
            return self.prefix / path.relative_to(self.final)
        return path

    def there(self, path: Path) -> Path:
        """Return where a path of the environment will be, for a copy: its relative paths are meant there."""
        if self.final is not None and path.is_relative_to(self.prefix):
            return self.final / path.relative_to(self.prefix)
        return path


def resolve(named: str | Path, search_path: str | None = None, cwd: Path | None = None) -> Target:
    """Return the environment a folder or an interpreter belongs to.

    `search_path` is the PATH on which a bare name such as "python3" is looked up, `cwd` what a relative path starts
    from. Raises TargetError when `named` is neither a folder holding `pyvenv.cfg` or `bin/python`, nor an interpreter
    inside one.
    """
    path = looked_up(named, search_path, cwd)
    try:
        return _of(path)
    except OSError as error:
        raise unusable(path, error) from error


def unusable(place: Path, error: OSError) -> TargetError:
    """Return the error for an environment that the system does not let this user read."""
    if closed := closed_place(error):
        return TargetError(closed.message, closed.hint)
    return TargetError(f"{error.filename or place}: {error.strerror or error}", "name another environment")


def looked_up(named: str | Path, search_path: str | None = None, cwd: Path | None = None) -> Path:
    """Return the absolute path that a name means, links left as they are; it need not exist."""
    path = Path(cwd or "", named)
    if len(Path(named).parts) == 1 and not os.path.lexists(path) and search_path is not None:
        path = Path(shutil.which(str(named), path=search_path) or path)
    return Path(os.path.abspath(path))  # noqa: PTH100 - Path.absolute keeps `..`


def is_interpreter(path: Path) -> bool:
    """Tell the path of an interpreter, its link's end missing or not, from a folder and from what is not there."""
    return _named_like_one(path) and os.path.lexists(path) and not path.is_dir()


def _named_like_one(path: Path) -> bool:
    return path.name.startswith(("python", "pypy"))


def _of(path: Path) -> Target:
    if path.is_dir():
        return _from_folder(path)
    if os.path.lexists(path):
        return _from_interpreter(path)
    raise TargetError(
        f"{path} does not exist",
        "name a venv folder or its interpreter: `envdoctor check path/to/.venv`",
    )


def _is_there(path: Path) -> bool:
    """Tell whether a file is there; raise PermissionError where that may not be looked up, which is not an answer."""
    try:
        path.stat()
    except PermissionError:
        raise
    except OSError:
        # A circle of symlinks is there, although nothing can be read from it.
        return path.is_symlink()
    return True


def _was_a_venv(prefix: Path) -> bool:
    """Tell a venv that has lost its pyvenv.cfg: an activate script, and packages without a standard library."""
    if not _is_there(prefix / "bin" / "activate"):
        return False
    return any(not _is_there(site.parent / "os.py") for site in prefix.glob("lib/python3.*/site-packages"))


def _from_folder(folder: Path) -> Target:
    interpreter = next(
        (at for name in ("python", "python3") if os.path.lexists(at := folder / "bin" / name)), folder / "bin/python"
    )
    if not _is_there(folder / "pyvenv.cfg") and not os.path.lexists(interpreter):
        raise TargetError(
            f"{folder} is not a Python environment: it has neither pyvenv.cfg nor bin/python",
            "name a venv folder or its interpreter: `envdoctor check path/to/.venv`",
        )
    return Target(prefix=folder, interpreter=interpreter)


def _from_interpreter(interpreter: Path) -> Target:
    if not _named_like_one(interpreter):
        raise TargetError(f"{interpreter} is not a Python interpreter", "name a venv folder or its interpreter")
    # A venv's interpreter is a symlink to its base: the first folder on the way that says it is a venv is meant.
    at = interpreter
    for _ in range(40):
        prefix = at.parent.parent
        if _is_there(prefix / "pyvenv.cfg") or _was_a_venv(prefix):
            return Target(prefix=prefix, interpreter=at)
        if not at.is_symlink():
            break
        at = Path(os.path.normpath(at.parent / os.readlink(at)))  # noqa: PTH115 - the link's text is wanted as it stands
    return Target(prefix=at.parent.parent, interpreter=at)
