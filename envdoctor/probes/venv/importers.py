"""Which distribution's own code imports a top-level module that several of them install."""

import os
import re
from collections.abc import Iterable, Sequence

from envdoctor.facts.regular_file import read_prefix
from envdoctor.probes.venv.distributions import Distribution
from envdoctor.probes.venv.records import RecordIndex

_MAXIMUM_SOURCE = 1024 * 1024
_MAXIMUM_SOURCES = 20_000
_IMPORTS = rb"^[ \t]*(?:from[ \t]+NAME\b|import[ \t]+(?:[\w.]+[ \t]*,[ \t]*)*NAME\b)|import_module\(\s*['\"]NAME['\"]"


def lone_module(path: str, sites: Iterable[str]) -> str:
    """Return the module that a file directly in a site folder is ("build_backend"), or empty; `path` is absolute."""
    folder, _, name = path.rpartition("/")
    return name.removesuffix(".py") if name.endswith(".py") and folder in sites else ""


def importer_of(module: str, owners: Iterable[int], records: RecordIndex, items: Sequence[Distribution]) -> str:
    """Return a Python file of one of the owners that imports `module`, absolute; empty when none of theirs does."""
    imports = re.compile(_IMPORTS.replace(b"NAME", re.escape(module.encode())), re.MULTILINE)
    for at in owners:
        sources = [row[0] for row in records.rows.get(at, ()) if row[0].endswith(".py")]
        for path in sources[:_MAXIMUM_SOURCES]:
            full = os.path.normpath(f"{items[at].site}/{path}")
            try:
                text = read_prefix(full, _MAXIMUM_SOURCE)
            except OSError:
                continue
            # A substring search first: it is what nearly every file ends at.
            if module.encode() in text and imports.search(text):
                return full
    return ""
