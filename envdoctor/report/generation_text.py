"""A kept venv in one line, and as plain values."""

from typing import Any

from envdoctor.model.codec import encode
from envdoctor.model.wording import counted
from envdoctor.swap.generations import Generation
from envdoctor.swap.verdicts import KeptVerdict

_NAMED = 2


def line(generation: Generation) -> str:
    """Return what a venv is, in one line without its number."""
    parts = [
        generation.profile or "not made by envdoctor",
        f"CPython {generation.python}" if generation.python else "no Python",
        f"torch {generation.torch}" if generation.torch else "no torch",
        counted(generation.packages, "package"),
        *([found(generation.verdict)] if generation.verdict else []),
    ]
    return ", ".join(parts)


def found(verdict: KeptVerdict) -> str:
    """Return "no errors found", or "3 errors: ED201 titles of two; and 1 more", and what could not be determined."""
    errors = verdict.errors
    said = "no errors found"
    if errors:
        shown = "; ".join(f"{error.code} {error.title}" for error in errors[:_NAMED])
        more = f"; and {len(errors) - _NAMED} more" if len(errors) > _NAMED else ""
        said = f"{counted(len(errors), 'error')}: {shown}{more}"
    untold = ", ".join(verdict.could_not_tell)
    return f"{said} (could not tell: {untold})" if untold else said


def plain(generation: Generation) -> dict[str, Any]:
    """Return a venv as plain values; its profile is null where envdoctor did not make it."""
    return {**encode(generation), "profile": generation.profile or None}
