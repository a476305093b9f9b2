"""The swap of a venv whose folder cannot be renamed: its contents are exchanged, name by name.

A mount point cannot be renamed, nor a folder in a parent that one may not write. Its store is then inside it, and the
names in it are moved in two steps, each behind a journal entry: out of the venv into the generation ("emptying"), then
out of the copy into the venv ("filling"). Killed in the first step, the next command puts the old venv back; in the
second, it completes the new one, which was verified before.
"""

import os
from pathlib import Path

from envdoctor.errors import RestoreError
from envdoctor.swap.durable import sync_folder
from envdoctor.swap.store import STORE


def move_all(source: Path, destination: Path) -> None:
    """Rename everything in a folder into another one, durably; the store, where it is there, stays.

    What was moved already is no matter, so it can be done again after a crash. Raises RestoreError for a name that is
    in the way: nothing is ever written over.
    """
    if not source.is_dir():
        return
    destination.mkdir(parents=True, exist_ok=True)
    for name in sorted(os.listdir(source)):  # noqa: PTH208 - names alone
        if name == STORE:
            continue
        if os.path.lexists(destination / name):
            raise RestoreError(
                f"{destination / name} was put there while the venv was being exchanged, and is in the way",
                "move it away, and run this again: what is left of the exchange is then done",
            )
        (source / name).rename(destination / name)
    sync_folder(source)
    sync_folder(destination)


def remove_empty(folder: Path) -> None:
    """Remove a folder whose contents have been moved on; one that is gone already is fine."""
    if folder.is_dir():
        folder.rmdir()
        sync_folder(folder.parent)
