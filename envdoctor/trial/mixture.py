"""A venv with some of the changes made: which file it gets from which end, built of second links in a moment."""

import os
import shutil
import stat
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from envdoctor.model.frozen import frozen
from envdoctor.swap.hardlinks import copy_file, hard_link
from envdoctor.trial.changes import StackChanges
from envdoctor.trial.contested import ContestedPaths
from envdoctor.trial.side import Side, owners
from envdoctor.trial.tree import VenvTree, of_the_installer, same

_SHOWN = 3


@frozen
class Mixture:
    """Both ends and the changes between them."""

    good: Side
    bad: Side
    changes: StackChanges
    contested: ContestedPaths

    def source(self, path: str, chosen: Collection[int]) -> Side | None:
        """Return the end that a path at which they differ comes from when those changes are made; None for no file."""
        concerned = self.changes.paths[path]
        made = concerned.intersection(chosen)
        if made == concerned or not made:
            side = self.bad if made else self.good
            return side if path in side.tree.entries else None
        moved = {name for at in made for name in self.changes.items[at].members}
        claiming = owners((self.good, self.bad), path)
        return self.contested.mixed(path, {name: self.bad if name in moved else self.good for name in claiming})

    def files(self, chosen: Collection[int]) -> Iterable[tuple[str, Side]]:
        """Yield every path and the end that it comes from; what both have alike, from the bad one.

        Where one end has a link and the other a folder, nothing is put behind the link: it may lead out of the copy.
        """
        taken = ((path, self.source(path, chosen)) for path in self.changes.paths)
        links = tuple(f"{path}/" for path, side in taken if side is not None and side.tree.entries[path].is_link)
        home = self._home(chosen)
        for path in self.good.tree.entries.keys() | self.bad.tree.entries.keys():
            if path in self.changes.paths:
                side = self.source(path, chosen)
            else:
                side = home if self.good.tree.of_the_venv(path) else self.bad
            if side is not None and path in side.tree.entries and not path.startswith(links):
                yield path, side

    def _home(self, chosen: Collection[int]) -> Side:
        bases = [at for at, change in enumerate(self.changes.items) if change.kind == "interpreter"]
        return self.good if bases and bases[0] not in chosen else self.bad

    def build(self, chosen: Collection[int], folder: Path, final: Path, compiled: Sequence[VenvTree] = ()) -> None:
        """Make `folder`, which does not exist, that venv. Its scripts name `final`, where it is or will be.

        compiled: copies in which Python has run, and whose bytecode is taken too. Raises OSError.
        """
        folder.mkdir()
        made = {""}
        root = str(folder)
        for path, side in self.files(chosen):
            _put(path, side.tree, root, str(final), made)
            for tree in (side.tree, *compiled):
                if path in tree.bytecode and _is_same(tree, side.tree, path):
                    for compiled_path in tree.bytecode[path]:
                        _link(f"{tree.root}/{compiled_path}", compiled_path, root, made)
                    break
        self._open_as_before(root, made)

    def _open_as_before(self, root: str, made: Collection[str]) -> None:
        """Give each folder the mode that it has at the bad end, else at the good one; it stays writable for us."""
        for folder in made:
            for tree in (self.bad.tree, self.good.tree):
                if (mode := tree.folders.get(folder)) is not None:
                    os.chmod(f"{root}/{folder}", mode | stat.S_IRWXU)
                    break

    def unlike(self, copy: VenvTree) -> list[str]:
        """Return the paths at which a copy with every change made is not as the bad end."""
        bad, good = self.bad.tree, self.good.tree
        found = []
        for path in sorted(bad.entries.keys() | copy.entries.keys()):
            if bad.of_the_venv(path) or (path not in self.changes.paths and of_the_installer(path)):
                continue
            linked = _is_same(copy, bad, path) or (path not in self.changes.paths and _is_same(copy, good, path))
            if not linked and not same(bad, copy, path):
                found.append(path)
        return found


def shown(paths: Sequence[str]) -> str:
    """Return the first of many paths, and how many more there are."""
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    return f"{', '.join(paths[:_SHOWN])}{more}"


def _is_same(tree: VenvTree, other: VenvTree, path: str) -> bool:
    here, there = tree.entries.get(path), other.entries.get(path)
    return here is not None and there is not None and (here.device, here.inode) == (there.device, there.inode)


def _put(path: str, tree: VenvTree, root: str, final: str, made: set[str]) -> None:
    target, entry = f"{root}/{path}", tree.entries[path]
    _make_folder(path if entry.is_folder else path.rpartition("/")[0], root, made)
    if entry.is_folder:
        return
    if entry.is_link:
        os.symlink(tree.leads_to(path, final), target)
        return
    content = tree.text(path, final)
    if content is None:
        _link(f"{tree.root}/{path}", path, root, made)
        return
    # It may be rewritten in place, and may name the folder: a file of its own.
    Path(target).write_bytes(content)
    shutil.copystat(f"{tree.root}/{path}", target)


def _link(source: str, path: str, root: str, made: set[str]) -> None:
    _make_folder(path.rpartition("/")[0], root, made)
    target = f"{root}/{path}"
    if not os.path.lexists(target) and not hard_link(source, target):
        copy_file(source, target)


def _make_folder(folder: str, root: str, made: set[str]) -> None:
    if folder not in made:
        os.makedirs(f"{root}/{folder}", exist_ok=True)
        while folder not in made:
            made.add(folder)
            folder = folder.rpartition("/")[0]
