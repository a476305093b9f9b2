"""`[tool.envdoctor]` of the nearest pyproject.toml: what a project wants when nothing else is said.

Most commands are run where there is no such table; they pay for a look into each folder above.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from envdoctor.facts.regular_file import read_regular
from envdoctor.model.frozen import field_names, frozen

if TYPE_CHECKING:  # only loaded where there is a table
    from envdoctor.model.finding import Severity
    from envdoctor.model.profile import Waiver

_MAXIMUM = 4 * 1024 * 1024
_TABLE = b"[tool.envdoctor"
"""`[[tool.envdoctor.waivers]]` has it too."""


@frozen
class ProjectConfig:
    """What a project's pyproject.toml says."""

    path: str = ""
    """Of the pyproject.toml; empty when none has the table."""
    profile: str = ""
    """A name, or an absolute path."""
    venv: str = ""
    """Absolute."""
    fail_on: "Severity | None" = None
    waivers: "tuple[Waiver, ...]" = ()
    ranks: str = ""
    """"off": the gate does not compare the ranks of a job. "require": nor do they start where not all were compared."""
    ranks_ignore: tuple[str, ...] = ()
    """Facts in which they may differ ("driver", "variable NCCL_SOCKET_IFNAME")."""
    ignored: str = ""
    """A pyproject.toml with the table that is another user's, who could waive findings and choose the stack."""


_read: "dict[tuple[str, int, int, int, int, int], ProjectConfig | None]" = {}
"""By path, device, inode, size and times: in a notebook, the file that is edited counts as it is now."""


def load(start: Path) -> ProjectConfig:
    """Return the configuration that holds in the folder `start`. Raises UsageError, naming the file and the key."""
    for folder in (start, *start.parents):
        path = folder / "pyproject.toml"
        try:
            status = path.stat()
            key = (str(path), status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
            if key not in _read:
                _read[key] = _table(path, read_regular(path, _MAXIMUM), status.st_uid)
        except OSError:
            continue
        if found := _read[key]:
            return found
    return ProjectConfig()


def _table(path: Path, content: bytes, owner: int) -> ProjectConfig | None:
    if _TABLE not in content:
        return None
    if owner not in (0, os.geteuid()):
        return ProjectConfig(ignored=str(path))
    from envdoctor.documents.project_table import Table, read  # noqa: PLC0415 - few projects have one

    table = read(path, content)
    return (
        ProjectConfig(path=str(path), **{name: getattr(table, name) for name in field_names(Table)}) if table else None
    )
