"""How what a bisection found is undone in the user's venv."""

import os
import shlex
import stat
from collections.abc import Collection, Iterator
from os import DirEntry
from pathlib import Path

from envdoctor.analysis.remedies import same_build
from envdoctor.facts.host import Host
from envdoctor.model.events import Event, Listener
from envdoctor.model.frozen import frozen
from envdoctor.stack.named import NamedStack
from envdoctor.swap.hardlinks import copy_file, copy_tree, hard_link
from envdoctor.swap.permissions import carry_over
from envdoctor.swap.shown import ShownVenv
from envdoctor.swap.store import STORE, BackupStore
from envdoctor.swap.swap import sync_file_system
from envdoctor.swap.transaction import Copying, Exchanged, exchange
from envdoctor.trial.bisection import Bisected, Bisection
from envdoctor.trial.mixture import Mixture
from envdoctor.trial.relocation import restate
from envdoctor.trial.tree import is_cache


@frozen
class UndoCommands:
    """What to type. Both are empty where the bad end is not a venv in use."""

    command: str = ""
    """Swaps in the copy that was found good."""
    by_hand: tuple[str, ...] = ()
    """The same with uv; empty where uv alone cannot do it."""


def undo_commands(found: Bisected, bad: NamedStack, mixture: Mixture) -> UndoCommands:
    """Return the commands that undo the changes in the bad end; a profile or a backup is not changed."""
    if bad.kind != "venv":
        return UndoCommands()
    root = mixture.bad.tree.root
    files = any(change.kind not in ("variable", "cache", "commit") for change in found.undone)
    command = f"envdoctor bisect --undo --venv {shlex.quote(root)}" if files and found.verified else ""
    return UndoCommands(command=command, by_hand=_by_hand(found, mixture))


def swap_in(
    bisection: Bisection, store: BackupStore, host: Host, listen: Listener, shown: ShownVenv
) -> Exchanged[None]:
    """Build the bad end without the causes once more, for good, and exchange the venv with it.

    shown: the venv that was bisected. Raises RestoreError.
    """

    def make(copying: Copying) -> None:
        listen(Event(phase="copy", text="building the copy that was found good"))
        bisection.mixture.build(bisection.left, copying.folder, store.target)
        copying.made()
        for entry in store.target.iterdir():
            if entry.is_dir() and not entry.is_symlink() and is_cache(entry.name):
                copy_tree(str(entry), str(copying.folder / entry.name), _link)
        for left in _keep_special(store.target, copying.folder):
            text = f"{left} has no place in the copy or cannot have a second link; it is in the backup alone"
            listen(Event(phase="copy", text=text))
        restate(copying.folder, _held(bisection.mixture, copying.folder))
        carry_over(store.target, copying.folder)
        sync_file_system(copying.folder)
        bisection.refuse_changed()

    from envdoctor.stack.examination import verdict_on  # noqa: PLC0415 - every check comes with it

    return exchange(
        store,
        "bisect",
        "",
        make,
        listen,
        host=host,
        shown=shown,
        verdict=lambda: verdict_on(store.target, host),
    )


def _held(mixture: Mixture, copy: Path) -> dict[Path, list[bytes]]:
    """Return what the files of a copy that name its folder hold at either end: a RECORD is of one of them."""
    found: dict[Path, list[bytes]] = {}
    for tree in (mixture.good.tree, mixture.bad.tree):
        for path in tree.entries:
            if (content := tree.held(path)) is not None:
                found.setdefault(copy / path, []).append(content)
    return found


def _keep_special(venv: Path, copy: Path) -> Iterator[Path]:
    """Link the pipes, sockets and devices of a venv into its copy; yield those that cannot be linked.

    In the copy there may be a link or a file where the venv has their folder, or something in their place: the copy's
    stays, and nothing is written where a link leads.
    """
    folders = [venv]
    while folders:
        with os.scandir(folders.pop()) as found:
            for entry in found:
                path = Path(entry.path)
                if entry.is_dir(follow_symlinks=False):
                    if path.parent != venv or (entry.name != STORE and not is_cache(entry.name)):
                        folders.append(path)
                elif not entry.is_symlink() and not entry.is_file():
                    target = copy / path.relative_to(venv)
                    if not (_is_free(target, copy) and hard_link(entry.path, str(target))):
                        yield path


def _is_free(target: Path, copy: Path) -> bool:
    return _made(target.parent, copy) and not os.path.lexists(target)


def _made(folder: Path, copy: Path) -> bool:
    """Make a folder inside of a copy; tell whether it is one, reached through folders alone."""
    at = copy
    for name in folder.relative_to(copy).parts:
        at /= name
        try:
            at.mkdir()
        except FileExistsError:
            if not stat.S_ISDIR(at.lstat().st_mode):
                return False
    return True


def _link(entry: DirEntry[str], target: str) -> None:
    if not hard_link(entry.path, target):
        copy_file(entry.path, target)


def _by_hand(found: Bisected, mixture: Mixture) -> tuple[str, ...]:
    python = f"{mixture.bad.tree.root}/bin/python"
    variables = tuple(
        f"unset {change.name}" if change.before == "not set" else f"export {change.name}={shlex.quote(change.before)}"
        for change in found.undone
        if change.kind == "variable"
    )
    if any(change.kind in ("file", "interpreter", "commit") for change in found.undone):
        return variables
    good, bad = mixture.good.installed, mixture.bad.installed
    names = sorted({name for change in found.undone for name in change.members})
    gone = [name for name in names if name not in good]
    again = {name for name in names if name in good} | _victims(gone, mixture)
    if any(good[name].origin for name in again if name in good) or not again <= good.keys():
        return variables
    if any(bad[name].linked for name in {*gone, *again} if name in bad):
        return variables
    lines = []
    if gone:
        lines.append(f"uv pip uninstall --python {shlex.quote(python)} {' '.join(gone)}")
    if again:
        wanted = " ".join(shlex.quote(same_build(name, good[name].version)) for name in sorted(again))
        flags = " ".join(f"--reinstall-package {name}" for name in sorted(again & bad.keys()))
        flags = f" {flags}" if flags else ""
        lines.append(f"uv pip install --python {shlex.quote(python)} --no-deps{flags} {wanted}")
    return (*variables, *lines)


def _victims(gone: Collection[str], mixture: Mixture) -> set[str]:
    """Return whose files an uninstall would delete too: they share a path with what goes."""
    found: set[str] = set()
    for claiming in mixture.bad.claims.values():
        if len(claiming) > 1 and not claiming.keys().isdisjoint(gone):
            found |= claiming.keys() - set(gone)
    return found
