"""How much room venvs take, hardlinks counted once: what removing one would free, and what is shared with others."""

import os
import stat
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from envdoctor.model.frozen import frozen
from envdoctor.swap.store import STORE


class _Inode(NamedTuple):
    device: int
    number: int


@frozen
class Tree:
    """The inodes of one folder."""

    links: Counter[_Inode]
    """How many of its links are in the folder."""
    blocks: dict[_Inode, tuple[int, int]]
    """(bytes on disk, links in all)."""


@frozen
class Space:
    """Bytes on disk of some folders, every inode once."""

    bytes: int
    frees: int
    """What removing them gives back: inodes with no link anywhere else."""

    @property
    def shared(self) -> int:
        """Bytes that also have a link elsewhere (uv's cache, another venv) and stay when these go."""
        return self.bytes - self.frees


def scan(folder: Path) -> Tree:
    """Read every inode below a folder; nothing is opened. What vanishes meanwhile is left out."""
    tree = Tree(links=Counter(), blocks={})
    todo = [str(folder)]
    while todo:
        try:
            entries = list(os.scandir(todo.pop()))
        except OSError:
            continue
        for entry in entries:
            if entry.name == STORE:
                continue  # inside a mount point; what is kept there is counted by itself
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            inode = _Inode(status.st_dev, status.st_ino)
            is_folder = stat.S_ISDIR(status.st_mode)
            tree.links[inode] += 1
            # A folder's links are its own "." and its children's "..": it goes when they go.
            tree.blocks[inode] = (status.st_blocks * 512, 1 if is_folder else status.st_nlink)
            if is_folder:
                todo.append(entry.path)
    return tree


def space(trees: Iterable[Tree]) -> Space:
    """Return what these folders take together."""
    links: Counter[_Inode] = Counter()
    blocks: dict[_Inode, tuple[int, int]] = {}
    for tree in trees:
        links.update(tree.links)
        blocks.update(tree.blocks)
    return Space(
        bytes=sum(size for size, _ in blocks.values()),
        frees=sum(size for inode, (size, total) in blocks.items() if links[inode] >= total),
    )
