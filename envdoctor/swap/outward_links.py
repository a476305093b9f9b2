"""Where a link of a venv leads in a copy of it: relative ones that leave the folder were made for its own place."""

import os
from collections.abc import Iterable


def led(leads_to: str, folder: str, names: Iterable[str], home: str, new: str) -> str:
    """Return where a link leads in a copy of its venv: to the copy's own files, and outside to the same as before.

    folder: the link's, relative to the venv. names: of the venv's folder. home: the folder that relative links were
    made for. new: where the copy is or will be.
    """
    if leads_to.startswith("/"):
        for name in names:
            if leads_to == name or leads_to.startswith(f"{name}/"):
                return new + leads_to[len(name) :]
        return leads_to
    if not leaves(folder, leads_to) or new == home:
        return leads_to
    # The kernel goes up from the real folder, whatever links lead to it (path_resolution(7)).
    real = os.path.realpath(home)
    target = os.path.normpath(f"{real}/{folder}/{leads_to}")
    if target == real or target.startswith(f"{real}/"):
        return os.path.relpath(target, f"{real}/{folder}")
    return target


def leaves(folder: str, leads_to: str) -> bool:
    """Tell whether a relative path goes above the venv's folder, from a folder inside."""
    return os.path.normpath(f"{folder}/{leads_to}" if folder else leads_to).split("/", 1)[0] == ".."
