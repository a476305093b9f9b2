"""The training code of a capture: hashes of its files, and what git says of it. Read-only."""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from envdoctor.errors import UsageError
from envdoctor.facts.regular_file import read_regular
from envdoctor.model.profile import GitState
from envdoctor.stack.git import ask_git

_MAXIMUM_SOURCE = 64 << 20

# More source files than that make a profile nobody reads; they are then to be named.
_MOST_TRACKED = 200


def git_state(root: Path, environment: Mapping[str, str]) -> GitState:
    """Return commit and changed files of the repository that `root` is in; empty without git or a repository."""
    commit = _git(root, environment, "rev-parse", "--verify", "HEAD")
    if commit is None:
        return GitState()
    status = (
        _git(
            root,
            environment,
            "status",
            "--porcelain=v1",
            "-z",
            "--untracked-files=no",
            "--ignore-submodules=all",
            "--",
            ".",
        )
        or ""
    )
    prefix = (_git(root, environment, "rev-parse", "--show-prefix") or "").strip()
    return GitState(commit=commit.strip(), changed=tuple(sorted(_changed(status, prefix))))


def source_hashes(root: Path, patterns: Iterable[str], environment: Mapping[str, str]) -> tuple[dict[str, str], str]:
    """Return file -> sha256, paths relative to `root`, and a note for the person.

    Without patterns: the Python files that git tracks there, unless there are too many. Raises UsageError for a pattern
    that matches no file, or leads out of `root`.
    """
    named = list(patterns)
    names = [name for pattern in named for name in _matching(root, pattern)]
    if not named:
        names = [name for name in _tracked(root, environment) if (root / name).is_file()]
        if len(names) > _MOST_TRACKED:
            return {}, f"git tracks {len(names)} Python files here: name those of the training code with --source"
    return {
        name: hashlib.sha256(read_regular(root / name, _MAXIMUM_SOURCE)).hexdigest() for name in sorted(set(names))
    }, ""


def _matching(root: Path, pattern: str) -> list[str]:
    if Path(pattern).is_absolute() or ".." in Path(pattern).parts:
        raise UsageError(f"--source {pattern} leads out of {root}", "name files below the project's folder")
    found = [path.relative_to(root).as_posix() for path in root.glob(pattern) if path.is_file()]
    if not found:
        raise UsageError(
            f"--source {pattern} matches no file of {root}", "give a file, or a pattern such as `src/**/*.py`"
        )
    return found


def _tracked(root: Path, environment: Mapping[str, str]) -> list[str]:
    listed = _git(root, environment, "ls-files", "-z", "--", "*.py") or ""
    # A name that is not UTF-8 cannot stand in a TOML file.
    return [name for name in listed.split("\0") if name and name.isprintable()]


def _changed(status: str, prefix: str) -> set[str]:
    fields = iter(status.split("\0"))
    found: set[str] = set()
    for entry in fields:
        if len(entry) > 3:
            found.add(entry[3:].removeprefix(prefix))
            if entry[0] in "RC":
                next(fields, None)  # the name before a rename
    return found


def _git(root: Path, environment: Mapping[str, str], *arguments: str) -> str | None:
    told = ask_git(root, environment, *arguments)
    return None if told is None else told.decode("utf-8", "surrogateescape")
