"""Asking git about a repository: nothing is written, no program of the repository's is run."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

from envdoctor.facts.children import run_child
from envdoctor.facts.programs import outside_venvs

_TIMEOUT = 60.0
# A repository's own configuration may name programs that git would run, and remotes that it would ask.
_QUIET = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "submodule.recurse=false",
          "-c", "log.showSignature=false")  # fmt: skip
_OFFLINE = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_TERMINAL_PROMPT": "0",
}
_FILTER_KEYS = ("clean", "smudge", "process")


def ask_git(root: Path, environment: Mapping[str, str], *arguments: str) -> bytes | None:
    """Return what `git ARGUMENTS` prints in `root`; None where it fails, hangs, or is not there.

    No filter of the repository (.gitattributes) is started: a file that has one counts by its content as it is.
    """
    listed = _ask(root, environment, "config", "--null", "--name-only", "--get-regexp", r"^filter\.") or b""
    names = {name.rpartition(b".")[0].decode("utf-8", "surrogateescape") for name in listed.split(b"\0") if name}
    without = [word for name in sorted(names) for key in _FILTER_KEYS for word in ("-c", f"{name}.{key}=")]
    optional = [word for name in sorted(names) for word in ("-c", f"{name}.required=false")]
    return _ask(root, environment, *without, *optional, *arguments)


def _ask(root: Path, environment: Mapping[str, str], *arguments: str) -> bytes | None:
    kept = {name: value for name, value in environment.items() if not name.startswith("GIT_")}
    program = outside_venvs("git", environment)
    if program is None:
        return None
    try:
        done = run_child(
            [program, *_QUIET, "-C", root, *arguments],
            timeout=_TIMEOUT,
            env={**kept, **_OFFLINE, "LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
