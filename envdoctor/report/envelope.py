"""What every JSON document starts with, and its text."""

import json
from collections.abc import Mapping
from typing import Any

from envdoctor import __version__

SCHEMA_VERSION = 1


def envelope(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document of a command's data."""
    return {"schema_version": SCHEMA_VERSION, "tool": {"name": "envdoctor", "version": __version__}, **data}


def dump(document: Mapping[str, Any]) -> str:
    """Return the document as text, ending in a newline. ASCII only: a file name may hold bytes that are not UTF-8."""
    return json.dumps(document, indent=2) + "\n"
