"""What is in a venv where folders of a distribution should be, and must go before uv touches its copy."""

import os
import shlex
from collections.abc import Collection
from pathlib import Path

from envdoctor.errors import RestoreError
from envdoctor.facts.folders import remove_folder
from envdoctor.probes.venv.obstacles import Obstacle
from envdoctor.stack.record_audit import RecordAudit


def folders_in_the_way(
    read: RecordAudit, venv: Path, names: Collection[str], obstacles: Collection[Obstacle] = ()
) -> tuple[str, ...]:
    """Return each file or link, relative to the venv, that is where the RECORDs of these distributions have a folder.

    `obstacles` are what is in the way of distributions whose RECORD cannot tell.
    uv stops at a file and at a link to nowhere; through a link out of the venv it would delete files that are
    somebody's own. A link to another folder of the venv is none of these.
    """
    root = os.path.realpath(venv) + os.sep
    folders = {
        str(folder)
        for name in names
        for path in (*read.graph.paths.get(name, ()), *read.outside.get(name, ()))
        for folder in Path(path).parents
        if "site-packages" in folder.parent.parts
    }
    found = {folder for folder in folders if _in_the_way(venv / folder, root)}
    return tuple(sorted(found | {item.path for item in obstacles if item.owner in names}))


def misnamed_folders(
    read: RecordAudit, venv: Path, names: Collection[str], misnamed: Collection[str]
) -> tuple[str, ...]:
    """Return the metadata folders of these distributions, relative to the venv, whose RECORD lists another one.

    An uninstall leaves them, as it leaves a folder that was renamed: its RECORD lists the name it had.
    """
    folders = (folder for name in sorted(names) for folder in read.folders.get(name, ()))
    return tuple(os.path.relpath(folder, venv) for folder in folders if folder in misnamed)


def remove_from_copy(copy: Path, inner: str) -> None:
    """Take away what is in the way. Only in a copy: what was in a folder stays in the venv that is kept.

    Raises RestoreError, with everything as it was, for a path that leads out of the copy.
    """
    path = _within(copy, inner)
    if path.is_dir() and not path.is_symlink():
        remove_folder(path)
    elif os.path.lexists(path):
        path.unlink()


def clear_the_way(copy: Path, inner: str) -> None:
    """Do the same, but keep a folder with something in it beside its place, as the printed reinstall does.

    Raises RestoreError as `remove_from_copy` does.
    """
    path = _within(copy, inner)
    if path.is_symlink() or not path.is_dir() or not any(path.iterdir()):
        remove_from_copy(copy, inner)
        return
    aside = path.with_name(f"{path.name}.aside")
    number = 1
    while os.path.lexists(aside):
        number += 1
        aside = path.with_name(f"{path.name}.aside{number}")
    path.rename(aside)


def _within(copy: Path, inner: str) -> Path:
    path = copy / inner
    if not f"{os.path.realpath(path.parent)}{os.sep}".startswith(os.path.realpath(copy) + os.sep):
        raise RestoreError(
            f"{path} is outside of the copy that is repaired, so it is not removed",
            "replace the link that leads there by a folder, then repair again",
        )
    return path


def _in_the_way(folder: Path, root: str) -> bool:
    # os.path, since pathlib raises below a folder that may not be searched; copying that one says what is wrong.
    inside = os.path.isdir(folder) and os.path.realpath(folder).startswith(root)  # noqa: PTH112
    return not inside and (os.path.islink(folder) or os.path.isfile(folder))  # noqa: PTH113, PTH114


def refuse_linked_out(
    read: RecordAudit, venv: Path, site: Path, names: Collection[str], removed: Collection[str]
) -> None:
    """Raise RestoreError where the packages, or files of these distributions, are behind a link out of the venv.

    A copy has the same link: what is changed behind it would be changed in the venv itself. `removed` are links that go
    from the copy first.
    """
    root = os.path.realpath(venv) + os.sep
    folders = {site, *site.parents} if site.is_relative_to(venv) else set()
    folders |= {
        folder
        for name in names
        for path in (*read.graph.paths.get(name, ()), *read.outside.get(name, ()))
        for folder in (venv / path).parents
    }
    gone = {venv / inner for inner in removed}
    for folder in sorted(folder for folder in folders - gone if folder.is_relative_to(venv) and folder != venv):
        goal = os.path.realpath(folder)
        if os.path.islink(folder) and not f"{goal}{os.sep}".startswith(root):  # noqa: PTH114
            raise RestoreError(
                f"{folder} is a link out of the venv, to {goal}: a change of a copy would change what is behind it for "
                "this venv too",
                f"fix it by hand, as `envdoctor check {shlex.quote(str(venv))}` says, or replace the link by the "
                "folder",
            )
