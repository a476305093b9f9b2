"""What a plan was made of, so that nothing else is exchanged or removed than what was shown."""

import os
from contextlib import suppress
from pathlib import Path

from envdoctor.errors import RestoreError
from envdoctor.facts.host import Host
from envdoctor.model.frozen import field, frozen, replace
from envdoctor.swap.seen import SeenVenv
from envdoctor.swap.store import BackupStore

_MAXIMUM = 200_000
_SHOWN = 3
Identity = tuple[int, int]
"""Device and inode, of the link itself where it is one."""


def identity(path: Path) -> Identity | None:
    """Return what is there, or None when there is nothing."""
    try:
        status = path.lstat()
    except OSError:  # nothing is there, or nobody can reach it
        return None
    return status.st_dev, status.st_ino


class AnotherVenvError(RestoreError):
    """The venv is not the one that was shown; nothing was swapped."""


@frozen
class ShownVenv:
    """A venv, and the folder it is in, as they were when a plan was made.

    Paths say nothing: a folder above may be replaced by a link, and the venv by another one, while a person reads.
    """

    target: Identity | None
    """None where there was no venv."""
    above: str
    """The folder that the store is in, or the nearest one above it that exists."""
    above_is: Identity | None
    config: tuple[int, int, int] | None
    """Of pyvenv.cfg: mode, size, time of its last change in ns. None without one."""
    installed: frozenset[tuple[str, int]]
    """Name of each metadata folder, and its time of last change in ns: an install or an uninstall changes one."""
    seen: SeenVenv | None = field(default=None, repr=False, compare=False)
    """Every entry, where they were looked at before somebody was asked; an exchange looks at its beginning else."""

    @classmethod
    def of(cls, store: BackupStore) -> "ShownVenv":
        """Return what is there now. Reads a folder or two, and nothing in them."""
        target = store.target
        above = next(at for at in (store.beside, *store.beside.parents) if os.path.lexists(at))
        return cls(
            target=identity(target),
            above=str(above),
            above_is=identity(above),
            config=_config(target),
            installed=_installed(target),
        )

    def with_entries(self, store: BackupStore, host: Host) -> "ShownVenv":
        """Return it with every entry of the venv as it is now; `host` says where compile caches are."""
        return replace(self, seen=SeenVenv(store.target, host))

    def refuse_changed(self) -> None:
        """Raise RestoreError where an entry is not as it was, if they were looked at. Looks at each once more."""
        if self.seen is not None:
            self.seen.refuse_changed()

    def refuse_another(self, store: BackupStore) -> None:
        """Raise RestoreError unless the store's venv is still the one that was shown.

        One that somebody deleted meanwhile is no other: nothing of it is replaced.
        """
        self.refuse_elsewhere()
        now = ShownVenv.of(store)
        if now.target is None:
            return
        if self.target is None and not store.inside:
            raise _refused(f"{store.target} has appeared since the plan was made")
        if now.target != self.target:
            kind = "a link" if store.target.is_symlink() else "another folder"
            raise _refused(f"{store.target} is {kind} now, not the venv that the plan was made of")
        if now.config != self.config:
            raise _refused(f"{store.target / 'pyvenv.cfg'} was changed since the plan was made")
        if changed := sorted({name for name, _ in now.installed ^ self.installed}):
            more = f" and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
            raise _refused(
                f"packages of {store.target} were changed since the plan was made: {', '.join(changed[:_SHOWN])}{more}",
            )

    def refuse_elsewhere(self) -> None:
        """Raise RestoreError unless the folder above is still the one that was shown."""
        if identity(Path(self.above)) != self.above_is:
            raise _refused(f"{self.above} is another folder than when the plan was made")


def refuse_replaced(folder: Path, made: Identity | None) -> None:
    """Raise RestoreError where a copy is not the folder that was made for it."""
    if made is not None and identity(folder) != made:
        raise RestoreError(
            f"{folder} is not the copy that was made there: somebody replaced it",
            "nothing was swapped; see who else changes that folder, then run this again",
        )


def _refused(what: str) -> AnotherVenvError:
    return AnotherVenvError(
        f"{what}, and nothing else is changed than what was shown", "run it again: it plans for what is there now"
    )


def _config(target: Path) -> tuple[int, int, int] | None:
    try:
        status = (target / "pyvenv.cfg").lstat()
    except OSError:  # nothing is there, or nobody can reach it
        return None
    return status.st_mode, status.st_size, status.st_mtime_ns


def _installed(target: Path) -> frozenset[tuple[str, int]]:
    found: set[tuple[str, int]] = set()
    for site in target.glob("lib/python3*/site-packages"):
        with suppress(OSError), os.scandir(site) as entries:
            for entry in entries:
                if entry.name.endswith((".dist-info", ".egg-info")) and len(found) < _MAXIMUM:
                    found.add((entry.name, entry.stat(follow_symlinks=False).st_mtime_ns))
    return frozenset(found)
