"""Programs that envdoctor starts itself, found on PATH but never in a venv."""

import os
import shutil
from collections.abc import Mapping


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
