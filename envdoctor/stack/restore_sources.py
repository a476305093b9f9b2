"""The training code's files that a profile names, put back from git; never over what git does not have."""

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from envdoctor.documents.profile_store import ProfileRef
from envdoctor.errors import RestoreError
from envdoctor.facts.regular_file import read_regular
from envdoctor.facts.whole_file import write_whole
from envdoctor.model.plan import SourceChange
from envdoctor.stack.git import ask_git

_MAXIMUM_SOURCE = 64 << 20

# A file with more versions than that is looked for in the newest ones only.
_MOST_COMMITS = 1000


def plan_sources(file: ProfileRef, environment: Mapping[str, str]) -> tuple[SourceChange, ...]:
    """Return what differs from the profile's `sources`, and where git has it.

    Raises RestoreError, nothing changed, for a file with work that is in no commit, and for one that git does not have.
    """
    root = file.path.parent.parent
    found: list[SourceChange] = []
    refused: list[str] = []
    for name, digest in sorted(file.profile.sources.items()):
        path = root / name
        if path.is_symlink() or not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root)):
            refused.append(f"{name} is a link, or leads out of {root}")
            continue
        present = read_regular(path, _MAXIMUM_SOURCE) if path.is_file() else None
        before = hashlib.sha256(present).hexdigest() if present is not None else ""
        if before == digest:
            continue
        if present is not None and ask_git(root, environment, "show", f"HEAD:./{name}") != present:
            refused.append(f"{name} holds work that is not committed")
        elif commit := next(_commits_with(root, environment, name, digest), ""):
            found.append(SourceChange(path=name, commit=commit, before=before, sha256=digest))
        else:
            refused.append(f"no commit has {name} with sha256 {digest}")
    if refused:
        raise RestoreError(
            f"the source files cannot be restored from git: {'; '.join(refused)}",
            "commit or stash the work, or fetch the branch that has it; `envdoctor check -p PROFILE` tells what "
            "differs",
        )
    return tuple(found)


def put_back(file: ProfileRef, changes: tuple[SourceChange, ...], environment: Mapping[str, str]) -> None:
    """Write the planned files, each in one step. Raises RestoreError for one that was changed since it was shown."""
    root = file.path.parent.parent
    for change in changes:
        path = root / change.path
        content = ask_git(root, environment, "show", f"{change.commit}:./{change.path}") or b""
        present = hashlib.sha256(read_regular(path, _MAXIMUM_SOURCE)).hexdigest() if path.is_file() else ""
        if hashlib.sha256(content).hexdigest() != change.sha256 or present != change.before:
            raise RestoreError(
                f"{path} is not what it was when it was shown, and is left alone", "look at it, then run this again"
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        mode = path.stat().st_mode & 0o777 if present else 0o644
        write_whole(path, content, mode, exact=True)


def _commits_with(root: Path, environment: Mapping[str, str], name: str, digest: str) -> Iterator[str]:
    listed = (
        ask_git(root, environment, "log", "--all", "--format=%H", f"--max-count={_MOST_COMMITS}", "--", name) or b""
    )
    for commit in listed.decode("ascii").split():
        content = ask_git(root, environment, "show", f"{commit}:./{name}")
        if content is not None and hashlib.sha256(content).hexdigest() == digest:
            yield commit
