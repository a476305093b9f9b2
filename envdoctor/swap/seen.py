"""Every entry of a venv as it was at one moment: what somebody changes after it would only be in the backup."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from envdoctor.errors import RestoreError
from envdoctor.facts.host import Host
from envdoctor.model.wording import counted
from envdoctor.swap.caches_inside import CachesInside
from envdoctor.swap.store import STORE

_SHOWN = 3
_BYTECODE = "__pycache__"


class SeenVenv:
    """Kinds, modes, sizes and times, without bytecode and compile caches, which change while the venv is used.

    No inodes: a file system in user space may give a file another number whenever it is looked up. Nor times of last
    change of status: they change with each link, and a copy is made of links.
    """

    def __init__(self, venv: Path, host: Host) -> None:
        """Look at every entry; nothing is opened. A venv that does not exist has none."""
        self._venv = venv
        self._caches = CachesInside(venv, host)
        self._entries = dict(_entries(str(venv), self._caches))

    def pieces(self) -> Iterator[bytes]:
        """Yield its path and its entries, for a digest."""
        yield b"\0folder\0" + os.fsencode(self._venv)
        for path, told in sorted(self._entries.items()):
            yield b"\0" + os.fsencode(path) + f"\0{told}".encode()

    def refuse_changed(self) -> None:
        """Raise RestoreError where the venv is not as it was; one that is gone has nothing to lose."""
        now = dict(_entries(str(self._venv), self._caches))
        if now == self._entries or not self._venv.is_dir():
            return
        paths = now.keys() | self._entries.keys()
        changed = sorted(path for path in paths if now.get(path) != self._entries.get(path))
        more = f" and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
        raise RestoreError(
            f"{counted(len(changed), 'file')} of {self._venv} changed meanwhile: {', '.join(changed[:_SHOWN])}{more}",
            "nothing was swapped; run it again once nothing else changes that venv",
        )


def _entries(venv: str, caches: CachesInside) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield (path, what tells it apart). What cannot be read has the error for its state: it need not stop a restore.

    A folder that cannot be listed is yielded twice; its second state counts.
    """
    pending = [("", 0)]
    while pending:
        folder, mode = pending.pop()
        try:
            with os.scandir(f"{venv}/{folder}") as found:
                listed = list(found)
        except FileNotFoundError:
            continue  # gone, which its parent tells
        except OSError as error:
            yield folder.rstrip("/") or ".", (mode, -(error.errno or 1))
            continue
        for entry in listed:
            if entry.name == _BYTECODE or (not folder and entry.name == STORE):
                continue
            path = f"{folder}{entry.name}"
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            except OSError as error:
                yield path, (-(error.errno or 1),)
                continue
            if not stat.S_ISDIR(status.st_mode):
                yield path, (status.st_mode, status.st_size, status.st_mtime_ns)
            elif not caches.begin_at(path):
                pending.append((f"{path}/", status.st_mode))
                yield path, (status.st_mode,)
