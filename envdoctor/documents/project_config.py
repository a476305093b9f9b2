"""`[tool.envdoctor]` of the nearest pyproject.toml: what a project wants when nothing else is said.

Most commands are run where there is no such table; they pay for a look into each folder above.
"""

import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from envdoctor.facts.regular_file import read_regular
from envdoctor.model.frozen import frozen

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
    ignored: str = ""
    """A pyproject.toml with the table that is another user's, who could waive findings and choose the stack."""


@cache
def load(start: Path) -> ProjectConfig:
    """Return the configuration that holds in the folder `start`. Raises UsageError, naming the file and the key."""
    for folder in (start, *start.parents):
        path = folder / "pyproject.toml"
        try:
            content = read_regular(path, _MAXIMUM)
            owner = path.stat().st_uid
        except OSError:
            continue
        if _TABLE not in content:
            continue
        if owner not in (0, os.geteuid()):
            return ProjectConfig(ignored=str(path))
        from envdoctor.documents.project_table import read  # noqa: PLC0415

        if found := read(path, content):
            return found
    return ProjectConfig()
