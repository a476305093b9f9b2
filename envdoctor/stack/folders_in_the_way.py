"""What is in a venv where folders of a distribution should be, and must go before uv touches its copy."""

import os
from collections.abc import Collection
from pathlib import Path

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
    inside = folder.is_dir() and os.path.realpath(folder).startswith(root)
    return not inside and (folder.is_symlink() or folder.is_file())
