"""Files that shadow Python's own modules, so that no program of this Python works."""

import os
import sys


def in_front_of_python() -> str:
    """Return a file that was imported under a standard module's name from elsewhere; empty when there is none."""
    own = os.path.dirname(os.__file__) + os.sep  # noqa: PTH120 - pathlib may be what is shadowed
    for name in sorted(sys.stdlib_module_names & sys.modules.keys()):
        file = getattr(sys.modules[name], "__file__", None)
        if file and not os.path.realpath(file).startswith((own, os.path.realpath(own) + os.sep)):
            return str(file)
    return ""


def message(file: str, error: Exception) -> tuple[str, str]:
    """Return what to say of such a file and of the error that came of it, and the hint."""
    return (
        f"envdoctor cannot run: {file} shadows Python's own module ({type(error).__name__}: {error})",
        "rename or remove that file: this Python searches its folder first, so no program of it works",
    )
