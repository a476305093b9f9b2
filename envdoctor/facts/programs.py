"""Programs that envdoctor starts itself, found on PATH but never in a venv; and how a reader starts them."""

import os
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from envdoctor.facts.pyenv import shim_root

# Set by `uv run`, `poetry run`, `pdm run`, `hatch run` and `pipenv run`, whose PATH ends with the command.
_RUNNERS = ("UV_RUN_RECURSION_DEPTH", "POETRY_ACTIVE", "PDM_RUN_CWD", "HATCH_ENV_ACTIVE", "PIPENV_ACTIVE")


def outside_venvs(name: str, environ: Mapping[str, str]) -> str | None:
    """Return the program that PATH finds outside of every venv and without a relative folder; None for none.

    The venv that is examined is often first on PATH, and what is in its bin is its code.
    """
    return shutil.which(name, path=search_path(environ))


def search_path(environ: Mapping[str, str]) -> str:
    """Return PATH without venvs and without relative folders, for a program that looks for others itself."""
    folders = environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(filter(_is_the_systems, folders)) or os.defpath


def _is_the_systems(folder: str) -> bool:
    return os.path.isabs(folder) and not os.path.lexists(os.path.join(folder, os.pardir, "pyvenv.cfg"))  # noqa: PTH117, PTH118


def by_path(environ: Mapping[str, str], started_as: str, own_uv: Callable[[], str | None]) -> dict[str, str]:
    """Return program -> the words that start it, for `uv` and `envdoctor` where a shell does not find them by name.

    And no word for `sudo` where root has none, as in a container. A shell finds another `envdoctor` than the one that
    runs: then this one's words are returned too. started_as: the path that this program was started by; a word without
    a folder (`python -c`) is no path, and nothing is known.
    """
    found: dict[str, str] = {}
    if not _in_shell("uv", environ) and (uv := own_uv()):
        found["uv"] = shlex.quote(uv)
    if not os.geteuid() and not _in_shell("sudo", environ):
        found["sudo"] = ""
    if "/" in started_as:
        own = os.path.abspath(started_as)  # noqa: PTH100 - a link to the program is what was typed
        if os.path.basename(own) == "__main__.py":  # noqa: PTH119
            own = os.path.join(os.path.dirname(sys.executable), "envdoctor")  # noqa: PTH118, PTH120
        shell = _in_shell("envdoctor", environ)
        if not os.access(own, os.X_OK):
            found["envdoctor"] = f"{shlex.quote(sys.executable)} -m envdoctor"
        elif not (shell and os.path.samefile(shell, own)):  # noqa: PTH121
            found["envdoctor"] = shlex.quote(own)
    return found


def _in_shell(name: str, environ: Mapping[str, str]) -> str | None:
    """Return the program that a shell finds which the command came from; a shim of pyenv's may start nothing."""
    folders = environ.get("PATH", os.defpath).split(os.pathsep)
    if any(map(environ.get, _RUNNERS)):
        folders = [folder for folder in folders if folder != os.path.join(sys.prefix, "bin")]  # noqa: PTH118
    path = shutil.which(name, path=os.pathsep.join(folders))
    return None if path is None or shim_root(Path(path)) else path
