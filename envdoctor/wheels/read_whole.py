"""What installers read whole, looked at before they are started: they take any size, and wait at a pipe."""

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from envdoctor.errors import RestoreError
from envdoctor.model.pattern import pattern
from envdoctor.model.wording import size

_MOST = 64 * 1024 * 1024
"""Bytes: the largest published RECORD has 4 MB."""
_OF_METADATA = (
    "METADATA", "PKG-INFO", "RECORD", "INSTALLER", "WHEEL", "direct_url.json", "entry_points.txt", "uv_cache.json",
    "top_level.txt", "requires.txt", "installed-files.txt", "SOURCES.txt",
)  # fmt: skip
"""What pip and uv read of a distribution, of whatever age: distutils' and setuptools' have the last four."""
_OF_PROJECTS = ("pyproject.toml", "uv.toml")
_PYTHONS = pattern(r"python3\.\d+t?")


def refuse_unbounded(*, venv: Path | None = None, project: Path | None = None) -> None:
    """Raise RestoreError for a file that an installer would read without a limit: one of over 64 MiB, a pipe, a device.

    venv: its folder, or the interpreter in its bin; without one, none is read. project: the folder that an
    installer is started in; it reads what is above, too.
    """
    paths = [*(_of_venv(venv) if venv else ()), *(_of_project(project) if project else ())]
    for path in paths:
        with suppress(OSError):
            status = os.stat(path)  # noqa: PTH116 - a string path
            regular = stat.S_ISREG(status.st_mode)
            if not regular or status.st_size > _MOST:
                is_what = f"has {size(status.st_size)}" if regular else "is not a regular file"
                raise RestoreError(
                    f"{path} {is_what}, and an installer would read all of it; nothing was started",
                    "look at what it is and move it away",
                )


def first_special(paths: Iterable[Path]) -> Path | None:
    """Return the first that is there and is neither a file nor a folder: an installer would wait at a pipe."""
    for path in paths:
        with suppress(OSError, ValueError):
            status = path.stat()
            if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
                return path
    return None


def _of_venv(venv: Path) -> Iterator[str]:
    prefix = venv if (venv / "pyvenv.cfg").is_file() else venv.parent.parent
    if not (prefix / "pyvenv.cfg").is_file():
        return
    for python in _names(prefix / "lib"):
        site = f"{prefix}/lib/{python}/site-packages"
        for name in _names(Path(site)) if _PYTHONS.fullmatch(python) else ():
            if name.endswith((".dist-info", ".egg-info")):
                yield from (f"{site}/{name}/{file}" for file in _OF_METADATA)
                if not os.path.isdir(f"{site}/{name}"):  # noqa: PTH112 - a string path
                    yield f"{site}/{name}"  # distutils wrote all of its metadata into one file of that name
            elif name.endswith((".pth", ".egg-link")):
                yield f"{site}/{name}"


def _of_project(folder: Path) -> Iterator[str]:
    for above in (folder, *folder.parents):
        yield from (f"{above}/{name}" for name in _OF_PROJECTS)


def _names(folder: Path) -> Iterable[str]:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - names only
    except OSError:
        return ()
