"""What is in a venv where folders of a distribution should be, and must go before uv touches its copy."""

import os
import shlex
from collections.abc import Collection
from pathlib import Path

from envdoctor.errors import RestoreError
from envdoctor.stack.record_audit import RecordAudit


def folders_in_the_way(read: RecordAudit, venv: Path, names: Collection[str]) -> tuple[str, ...]:
    """Return each file or link, relative to the venv, that is where the RECORDs of these distributions have a folder.

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
    return tuple(folder for folder in sorted(folders) if _in_the_way(venv / folder, root))


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
                f"{folder} is a link out of the venv, to {goal}: a repair of a copy would change what is behind it for "
                "this venv too",
                f"fix it by hand, as `envdoctor check {shlex.quote(str(venv))}` says, or replace the link by the "
                "folder",
            )
