"""Compile caches of a copy's own: what a command compiles there, or damages, does not reach the user's."""

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from envdoctor.catalog.cache_kinds import BY_NAME
from envdoctor.facts.folders import walk
from envdoctor.facts.host import Host
from envdoctor.probes.caches.compile_caches import locate
from envdoctor.swap.hardlinks import copy_file, hard_link
from envdoctor.swap.store import remove_tree

_SMALL = 64 << 10
"""Compilers write some small files in place (autotuning results, build.ninja): those are copied, never linked."""
_MOST_COPIED = 1 << 30
"""Bytes of a cache on another file system, where nothing can be linked; a larger one is left cold."""


def own_caches(host: Host, folder: Path, *, warm: bool) -> dict[str, str | None]:
    """Make `folder` new caches, seeded by links with what the user's hold where `warm`; return their variables.

    `host` has the variables of the launch: they say where the user's caches are.
    """
    remove_tree(folder)
    variables: dict[str, str | None] = {}
    for name, path, _ in locate(host):
        kind = BY_NAME[name]
        own = folder / name / kind.below
        own.parent.mkdir(parents=True, exist_ok=True)
        if warm and path.is_dir() and _affordable(path, folder):
            _seed(path, own)
        own.mkdir(parents=True, exist_ok=True)
        variables[kind.variable] = str(folder / name)
    return variables


def as_launched(host: Host, variables: Mapping[str, str | None]) -> dict[str, str]:
    """Return the environment of the host with those variables set, or unset where None."""
    kept = {name: value for name, value in host.environ.items() if name not in variables}
    return kept | {name: value for name, value in variables.items() if value is not None}


def _affordable(path: Path, folder: Path) -> bool:
    if path.stat().st_dev == folder.parent.stat().st_dev:
        return True
    total = 0
    for at, _, names in walk(path):
        for name in names:
            with suppress(FileNotFoundError):  # as below
                total += os.lstat(f"{at}/{name}").st_size
        if total > _MOST_COPIED:
            return False
    return True


def _seed(source: Path, target: Path) -> None:
    for at, folders, names in walk(source):
        here = target / os.path.relpath(at, source)
        here.mkdir(parents=True, exist_ok=True)
        folders[:] = [name for name in folders if not Path(at, name).is_symlink()]
        for name in names:
            path, copy = f"{at}/{name}", f"{here}/{name}"
            try:
                small = os.lstat(path).st_size <= _SMALL
                if small or not hard_link(path, copy):
                    copy_file(path, copy)
            except (FileNotFoundError, shutil.SpecialFileError):
                continue  # a compiler at work beside us removed it; or it is a pipe, which holds no entry
