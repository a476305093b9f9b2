"""A kept venv in one line, and as plain values."""

from typing import Any

from envdoctor.model.codec import encode
from envdoctor.model.wording import counted
from envdoctor.swap.generations import Generation


def line(generation: Generation) -> str:
    """Return what a venv is, in one line without its number."""
    parts = [
        generation.profile or "not made by envdoctor",
        f"CPython {generation.python}" if generation.python else "no Python",
        f"torch {generation.torch}" if generation.torch else "no torch",
        counted(generation.packages, "package"),
    ]
    return ", ".join(parts)


def plain(generation: Generation) -> dict[str, Any]:
    """Return a venv as plain values; its profile is null where envdoctor did not make it."""
    return {**encode(generation), "profile": generation.profile or None}
