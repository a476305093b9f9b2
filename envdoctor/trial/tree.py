"""What is in a venv's folder, entry by entry, and at which paths two venvs do not have the same.

Bytecode is left out: each file's goes where its source goes. What an installer writes about an install, and what names
the folder of the venv itself (the line of a script that starts Python), makes no difference.
"""

import os
import stat
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

from envdoctor.facts.regular_file import open_regular, read_regular
from envdoctor.model.events import Event, Listener
from envdoctor.standards.recorded import INSTALLER_FILES
from envdoctor.swap.outward_links import leaving_lines, led, with_lines
from envdoctor.swap.store import STORE
from envdoctor.swap.unmanaged_files import CACHE_FOLDERS
from envdoctor.trial.renamed import moved, moved_pth, started_by, without_python

_PIECE = 1 << 20
_MAXIMUM_TEXT = 1 << 20
_ANY = "\0venv\0"
# What makes a venv one: it says how the folder was made, and nothing of what is installed.
_OF_THE_VENV = (
    "include", "include/python3.*", "pyvenv.cfg", ".gitignore", ".lock", "CACHEDIR.TAG", "envdoctor-restore.json",
    "lib64", "bin/activate*",
    "bin/Activate.ps1", "bin/deactivate*", "bin/pydoc.bat", "bin/python", "bin/python3", "bin/python3.*",
    "lib/python3.*/site-packages/_virtualenv.p*",
)  # fmt: skip


class Entry(NamedTuple):
    """One file or link, or a folder with nothing in it."""

    mode: int
    size: int
    mtime_ns: int
    device: int
    inode: int
    leads_to: str
    """Of a link."""

    @property
    def is_link(self) -> bool:
        """Tell a link from a file."""
        return stat.S_ISLNK(self.mode)

    @property
    def is_folder(self) -> bool:
        """Tell a folder with nothing in it, which Python can import as a namespace and git needs in a checkout."""
        return stat.S_ISDIR(self.mode)


class VenvTree:
    """A folder as it was when it was read. Paths are relative to it, with slashes."""

    def __init__(self, root: Path, home: Path | None = None) -> None:
        """Read every entry below `root`; nothing is opened. `home`: the folder that it was made for, if another."""
        self.root = str(root)
        self.home = str(home or root)
        self.kin: tuple[str, ...] = ()
        """Names of the venv that it is compared and mixed with: its scripts may start that one's Python."""
        self.entries: dict[str, Entry] = {}
        self.folders: dict[str, int] = {}
        """Every folder but those of bytecode -> its mode."""
        self.bytecode: dict[str, list[str]] = {}
        """Source file -> the compiled files beside it."""
        todo = [("", 0)]
        while todo:
            path, mode = todo.pop()
            inner = list(self._read(f"{path}/" if path else ""))
            todo += [one for one in inner if one is not None]
            if path and not inner:
                self.entries[path] = Entry(mode, 0, 0, 0, 0, "")

    def _read(self, folder: str) -> Iterator[tuple[str, int] | None]:
        """Read a folder; yield the path and mode of each folder in it, None for each other entry."""
        with os.scandir(f"{self.root}/{folder}") as found:
            for entry in found:
                path = f"{folder}{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    if entry.name == "__pycache__":
                        self._note_bytecode(folder, entry.path)
                    elif folder or (entry.name != STORE and not is_cache(entry.name)):
                        mode = entry.stat(follow_symlinks=False).st_mode
                        self.folders[path] = stat.S_IMODE(mode)
                        yield path, mode
                    continue
                status = entry.stat(follow_symlinks=False)
                if not (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)):
                    continue
                leads_to = os.readlink(entry.path) if stat.S_ISLNK(status.st_mode) else ""
                self.entries[path] = Entry(
                    status.st_mode, status.st_size, status.st_mtime_ns, status.st_dev, status.st_ino, leads_to
                )
                yield None

    def _note_bytecode(self, folder: str, path: str) -> None:
        for name in os.listdir(path):
            stem, _, rest = name.partition(".")
            if rest.endswith("pyc"):
                self.bytecode.setdefault(f"{folder}{stem}.py", []).append(f"{folder}__pycache__/{name}")

    @property
    def site(self) -> str:
        """Return the path of site-packages, with a slash at the end; empty where there is none."""
        return next((path[: at + 15] for path in self.entries if (at := path.find("/site-packages/")) > 0), "")

    def of_the_venv(self, path: str) -> bool:
        """Tell what belongs to the venv as such."""
        near = path.startswith("bin/") or path.count("/") <= path.startswith("include") or "/_virtualenv.p" in path
        return near and any(fnmatch(path, pattern) for pattern in _OF_THE_VENV)

    def signature(self) -> Iterator[str]:
        """Yield a line for each entry, which changes with the entry."""
        for path, entry in sorted(self.entries.items()):
            yield f"{path}\0{entry.mode}\0{entry.size}\0{entry.mtime_ns}\0{entry.inode}\0{entry.leads_to}"

    def held(self, path: str) -> bytes | None:
        """Return what a file holds that may name the folder of its venv; None for others."""
        entry = self.entries[path]
        if not names_root(path) or not stat.S_ISREG(entry.mode) or entry.size > _MAXIMUM_TEXT:
            return None
        return read_regular(f"{self.root}/{path}", _MAXIMUM_TEXT)

    def text(self, path: str, other: str = "") -> bytes | None:
        """Return the same with `other` in place of that folder."""
        content = self.held(path)
        if content is None:
            return None
        if path.endswith(".pth"):
            if other != self.home:
                content = with_lines(content, leaving_lines(content, path.rpartition("/")[0], self.home))
            return moved_pth(content, self.names, other or _ANY)
        if path.startswith("bin/"):
            known = (*self.names, *self.kin)
            content = started_by(content, f"{other}/bin", known) if other else without_python(content, known)
        return moved(content, self.names, other or _ANY)

    def leads_to(self, path: str, other: str = "") -> str:
        """Return where a link leads with `other` in place of its venv's folder."""
        return led(self.entries[path].leads_to, path.rpartition("/")[0], self.names, self.home, other or _ANY)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names that files of the venv may have for its folder: as it was named, and links followed."""
        known = (self.root, os.path.realpath(self.root), self.home, os.path.realpath(self.home))
        return tuple(dict.fromkeys(known))


def names_root(path: str) -> bool:
    """Tell whether a file may name the folder of its venv: a script, pyvenv.cfg, a .pth file."""
    return path.startswith("bin/") or path == "pyvenv.cfg" or (path.endswith(".pth") and path.count("/") == 3)


def is_cache(name: str) -> bool:
    """Tell a compile cache by the name of its folder at the top of a venv."""
    return any(fnmatch(name, pattern) for pattern in CACHE_FOLDERS)


def differing(one: VenvTree, other: VenvTree, listen: Listener) -> list[str]:
    """Return the paths at which two venvs do not have the same, sorted."""
    found = []
    unsure: list[tuple[str, int]] = []
    for path in one.entries.keys() | other.entries.keys():
        if one.of_the_venv(path) or of_the_installer(path):
            if (path in one.entries) != (path in other.entries) and of_the_installer(path):
                found.append(path)
            continue
        same = _same_at_a_glance(one, other, path)
        if same is None:
            unsure.append((path, one.entries[path].size))
        elif not same:
            found.append(path)
    total, done = sum(size for _, size in unsure), 0
    for path, size in sorted(unsure):
        listen(Event(phase="copy", text="comparing both ends", done=done, total=total))
        if not _same_bytes(f"{one.root}/{path}", f"{other.root}/{path}"):
            found.append(path)
        done += size
    return sorted(found)


def of_the_installer(path: str) -> bool:
    """Tell a note that an installer writes into a dist-info folder."""
    folder, _, name = path.rpartition("/")
    return name in INSTALLER_FILES and folder.endswith(".dist-info")


def _same_at_a_glance(one: VenvTree, other: VenvTree, path: str) -> bool | None:
    """Tell whether an entry is the same; None where the bytes must tell."""
    here, there = one.entries.get(path), other.entries.get(path)
    if here is None or there is None or here.is_folder or there.is_folder:
        # A folder with nothing in it at one end, with something in it at the other: the files are the difference.
        return path in one.folders and path in other.folders
    if here.is_link or there.is_link:
        return here.is_link and there.is_link and one.leads_to(path) == other.leads_to(path)
    if (here.device, here.inode) == (there.device, there.inode):
        return True
    if (here.mode ^ there.mode) & stat.S_IXUSR:
        return False
    texts = one.text(path), other.text(path)
    if None not in texts:
        return texts[0] == texts[1]
    return None if here.size == there.size else False


def same(one: VenvTree, other: VenvTree, path: str) -> bool:
    """Tell whether two venvs have the same at a path, the folder's own name left out."""
    known = _same_at_a_glance(one, other, path)
    return _same_bytes(f"{one.root}/{path}", f"{other.root}/{path}") if known is None else known


def _same_bytes(one: str, other: str) -> bool:
    with open_regular(one) as left, open_regular(other) as right:
        while piece := left.read(_PIECE):
            if piece != right.read(_PIECE):
                return False
    return True
