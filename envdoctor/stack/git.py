"""Asking git about a repository: nothing is written, no program of the repository's is run."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

_TIMEOUT = 60.0
# A repository's own configuration may name programs that git would run.
_QUIET = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")


def ask_git(root: Path, environment: Mapping[str, str], *arguments: str) -> bytes | None:
    """Return what `git ARGUMENTS` prints in `root`; None where it fails, hangs, or is not there."""
    kept = {name: value for name, value in environment.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", *_QUIET, "-C", root, *arguments],
            capture_output=True,
            timeout=_TIMEOUT,
            env={**kept, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"},
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
