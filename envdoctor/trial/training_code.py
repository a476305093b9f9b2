"""The commits of the training code between two ends, and the code of one of them in a folder of its own."""

import io
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from envdoctor.errors import UsageError
from envdoctor.facts.host import Host
from envdoctor.model.frozen import frozen
from envdoctor.stack.git import ask_git
from envdoctor.trial.changes import StackChange

_RANK = 8
_HINT = "omit `--sources` to bisect the environment alone"


@frozen
class TrainingCode:
    """The repository that the current folder is in, and its commits from the good end's to the bad one's."""

    root: Path
    inner: str
    """The current folder, relative to the root; empty where it is the root."""
    good: str
    """Commit of the good end."""
    commits: tuple[str, ...]
    """Those after it, the oldest first."""
    subjects: tuple[str, ...]

    def changes(self) -> Iterator[StackChange]:
        """Yield each commit as a change, in order; a later one brings the earlier ones along."""
        for order, (commit, subject) in enumerate(zip(self.commits, self.subjects, strict=True)):
            yield StackChange(kind="commit", name=commit, before="not there", after=subject, rank=_RANK, order=order)

    def export(self, made: Sequence[str], folder: Path, host: Host) -> Path:
        """Write the code with those commits made into `folder`, which does not exist; return where to work there.

        Raises UsageError where git cannot.
        """
        last = max((self.commits.index(commit) for commit in made), default=-1)
        commit = self.commits[last] if last >= 0 else self.good
        packed = ask_git(self.root, host.environ, "archive", "--format=tar", commit)
        if packed is None:
            raise UsageError(f"git cannot give the code of commit {commit[:12]}", _HINT)
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(folder, filter="data")
        if not (folder / self.inner).is_dir():
            raise UsageError(f"commit {commit[:12]} has no folder {self.inner}, in which this was started", _HINT)
        return folder / self.inner


def training_code(good: str, bad: str, host: Host) -> TrainingCode:
    """Return the commits between two; an empty `bad` is the working tree's, which must not have changes of its own.

    Raises UsageError.
    """

    def git(*words: str) -> str | None:
        told = ask_git(host.cwd, host.environ, *words)
        return None if told is None else told.decode("utf-8", "replace").strip("\n")

    root, inner = git("rev-parse", "--show-toplevel"), git("rev-parse", "--show-prefix")
    if root is None or inner is None:
        raise UsageError(f"{host.cwd} is in no git repository that can be read, so there are no commits", _HINT)
    if not good:
        raise UsageError(
            "the good end does not say which commit it is", "name a profile that was captured in a repository"
        )
    if not bad and git("status", "--porcelain", "--untracked-files=no"):
        raise UsageError("the working tree has changes that no commit has", "commit or stash them first")
    last = bad or git("rev-parse", "--verify", "HEAD") or ""
    for commit in (good, last):
        if git("cat-file", "-e", f"{commit}^{{commit}}") is None:
            raise UsageError(
                f"commit {commit[:12]} is not in {root}", "fetch it first, or work in the right repository"
            )
    if git("merge-base", "--is-ancestor", good, last) is None:
        commits = [last]
    else:
        commits = (git("rev-list", "--reverse", "--first-parent", f"{good}..{last}") or "").split()
    subjects = tuple(git("log", "-1", "--format=%s", commit) or "" for commit in commits)
    return TrainingCode(root=Path(root), inner=inner.rstrip("/"), good=good, commits=tuple(commits), subjects=subjects)
