"""What is in a venv's folder, entry by entry, and at which paths two venvs do not have the same.

Bytecode is left out: each file's goes where its source goes. What an installer writes about an install, and what names
the folder of the venv itself (the line of a script that starts Python), makes no difference.
"""

import os
import re
import shlex
import stat
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

from envdoctor.facts.regular_file import open_regular, read_regular
from envdoctor.model.events import Event, Listener
from envdoctor.standards.recorded import INSTALLER_FILES, without_interpreter
from envdoctor.swap.store import STORE
from envdoctor.swap.unmanaged_files import CACHE_FOLDERS

_PIECE = 1 << 20
_MAXIMUM_TEXT = 1 << 20
# The kernel cuts a longer first line off (execve(2)); installers write a shell line then.
_LONGEST_LINE = 120
# A Python by its absolute path, in the first line or in the shell line of uv and distlib.
_STARTS = re.compile(rb"""\A#!(?:/bin/sh\n'''exec' )?["']?/[^\n"']*/(python[\d.]*)["']?(?: "\$0" "\$@")?\n""")
# What makes a venv one: it says how the folder was made, and nothing of what is installed.
_OF_THE_VENV = (
    "pyvenv.cfg", ".gitignore", ".lock", "CACHEDIR.TAG", "envdoctor-restore.json", "lib64", "bin/activate*",
    "bin/Activate.ps1", "bin/deactivate*", "bin/pydoc.bat", "bin/python", "bin/python3", "bin/python3.*",
    "lib/python3.*/site-packages/_virtualenv.p*",
)  # fmt: skip


class Entry(NamedTuple):
    """One file or link."""

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


class VenvTree:
    """A folder as it was when it was read. Paths are relative to it, with slashes."""

    def __init__(self, root: Path) -> None:
        """Read every entry below `root`; nothing is opened."""
        self.root = str(root)
        self.entries: dict[str, Entry] = {}
        self.bytecode: dict[str, list[str]] = {}
        """Source file -> the compiled files beside it."""
        self._read("")

    def _read(self, folder: str) -> None:
        with os.scandir(f"{self.root}/{folder}") as found:
            for entry in found:
                path = f"{folder}{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    if entry.name == "__pycache__":
                        self._note_bytecode(folder, entry.path)
                    elif folder or (entry.name != STORE and not is_cache(entry.name)):
                        self._read(f"{path}/")
                    continue
                status = entry.stat(follow_symlinks=False)
                if not (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)):
                    continue
                leads_to = os.readlink(entry.path) if stat.S_ISLNK(status.st_mode) else ""
                self.entries[path] = Entry(
                    status.st_mode, status.st_size, status.st_mtime_ns, status.st_dev, status.st_ino, leads_to
                )

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
        near = path.startswith("bin/") or "/" not in path or "/_virtualenv.p" in path
        return near and any(fnmatch(path, pattern) for pattern in _OF_THE_VENV)

    def signature(self) -> Iterator[str]:
        """Yield a line for each entry, which changes with the entry."""
        for path, entry in sorted(self.entries.items()):
            yield f"{path}\0{entry.mode}\0{entry.size}\0{entry.mtime_ns}\0{entry.inode}\0{entry.leads_to}"

    def text(self, path: str, other: str = "") -> bytes | None:
        """Return what a file holds that may name the folder of its venv, with `other` in its place; None for others."""
        if not names_root(path) or self.entries[path].is_link or self.entries[path].size > _MAXIMUM_TEXT:
            return None
        content = read_regular(f"{self.root}/{path}", _MAXIMUM_TEXT)
        if not other:
            bare = without_interpreter(content) if path.startswith("bin/") else content
            return moved(bare, self.names, "\0venv\0")
        if path.startswith("bin/"):
            content = started_by(content, f"{other}/bin")
        return moved(content, self.names, other)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names that files of the venv may have for its folder: as it was named, and links followed."""
        return tuple(dict.fromkeys((self.root, os.path.realpath(self.root))))


def names_root(path: str) -> bool:
    """Tell whether a file may name the folder of its venv: a script, pyvenv.cfg, a .pth file."""
    return path.startswith("bin/") or path == "pyvenv.cfg" or (path.endswith(".pth") and path.count("/") == 3)


def moved(content: bytes, names: Iterable[str], new: str) -> bytes:
    """Return a text with one folder in place of another, where a name of that is the whole name of a folder."""
    after = os.fsencode(new)
    for before in map(os.fsencode, names):
        parts = content.split(before)
        content = parts[0]
        for part in parts[1:]:
            content += (before if part[:1].isalnum() or part[:1] in (b"-", b"_", b".") else after) + part
    return content


def started_by(script: bytes, folder: str) -> bytes:
    """Return a script with a Python of `folder` in the line that starts it; as it is where it finds its own, or none.

    Whatever Python it names: a venv that was copied has scripts that start the original's.
    """
    named = _STARTS.match(script)
    if named is None:
        return script
    body = without_interpreter(script).partition(b"\n")[2]
    python = f"{folder}/{named[1].decode()}"
    if len(python) <= _LONGEST_LINE and " " not in python:
        return b"#!" + os.fsencode(python) + b"\n" + body
    return b"#!/bin/sh\n'''exec' " + os.fsencode(shlex.quote(python)) + b" \"$0\" \"$@\"\n' '''\n" + body


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
    if here is None or there is None:
        return False
    if here.is_link or there.is_link:
        ways = [
            entry.leads_to.replace(tree.root, "\0") for entry, tree in ((here, one), (there, other)) if entry.is_link
        ]
        return len(ways) == 2 and ways[0] == ways[1]
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
