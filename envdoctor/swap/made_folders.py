"""Folders that a command makes above a venv that does not exist yet; they go again when the venv does not come."""

import os
from pathlib import Path

from envdoctor.swap.store import STORE, BackupStore


def missing(store: BackupStore) -> tuple[Path, ...]:
    """Return the folders above the store that are yet to be made, the topmost first."""
    return tuple(reversed([at for at in (store.beside, *store.beside.parents) if not os.path.lexists(at)]))


def remove(store: BackupStore, made: tuple[Path, ...]) -> None:
    """Remove the folders that were made, and the empty store in them; what holds anything else stays."""
    if not made or os.path.lexists(store.target):
        return
    try:
        if store.builds.is_dir():
            store.builds.rmdir()
        if {path.name for path in store.root.iterdir()} == {"lock"}:
            (store.root / "lock").unlink()
        store.root.rmdir()
        holder = store.beside / STORE
        if {path.name for path in holder.iterdir()} == {".gitignore"}:
            (holder / ".gitignore").unlink()
        holder.rmdir()
        for folder in reversed(made):
            folder.rmdir()
    except OSError:
        return  # somebody uses it meanwhile
