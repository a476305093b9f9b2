"""What the `cache` commands share: an option, the caches of the target venv, the question before a change."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from envdoctor.cache import runtime_key as live_key
from envdoctor.cache.key_parts import Part
from envdoctor.cache.layout import Root, roots
from envdoctor.cache.static_key import key_parts
from envdoctor.cache.store import Store
from envdoctor.catalog.cache_kinds import PORTABLE
from envdoctor.cli.terminal import say
from envdoctor.doctor.workspace import Workspace
from envdoctor.errors import UsageError
from envdoctor.facts.context import Reading
from envdoctor.facts.host import Host
from envdoctor.model.frozen import frozen
from envdoctor.model.profile import Profile

LiveOption = Annotated[
    bool, typer.Option("--live", help="Ask the venv's own torch for its key: runs the venv's interpreter.")
]


@frozen
class Subject:
    """The environment whose caches are meant."""

    workspace: Workspace
    """With the environment that the profile's launch sets."""
    reading: Reading
    store: Store

    @property
    def host(self) -> Host:
        """Return the machine, with the environment the profile's launch sets."""
        return self.workspace.host

    @property
    def profile(self) -> Profile | None:
        """Return what the profile says, where one was named."""
        return self.workspace.profile.profile if self.workspace.profile else None

    @property
    def profile_asked(self) -> str:
        """Return the profile as it was named, for commands to paste; empty without one."""
        return self.workspace.profile.asked if self.workspace.profile else ""

    @property
    def profile_digest(self) -> str:
        """Return the sha256 of the profile's file and its lock; empty without a profile."""
        return self.workspace.profile.digest if self.workspace.profile else ""

    @property
    def python(self) -> Path:
        """Return the venv's interpreter."""
        return self.reading.target.interpreter

    def roots(self, kinds: Sequence[str] = PORTABLE) -> tuple[Root, ...]:
        """Return the cache folders of those kinds."""
        return tuple(root for root in roots(self.host) if root.kind in kinds)

    @property
    def inductor(self) -> Path:
        """Return inductor's folder, in which the manifests lie too."""
        return next(root.path for root in roots(self.host) if root.kind == "inductor")

    def key(self, *, live: bool = False) -> tuple[Part, ...]:
        """Return the key as it is now; `live` asks the venv's torch."""
        static = key_parts(self.reading)
        if not live:
            return static
        say(f"asking the torch of {self.reading.target.prefix}")
        return live_key.merged(static, live_key.ask(self.python, self.host.environ, self.host.cwd))


def subject(venv: str, profile: str) -> Subject:
    """Return the environment that was named, seen as the profile's launch would see it."""
    workspace = Workspace.open(venv, profile).with_variables()
    return Subject(workspace=workspace, reading=workspace.reading(), store=Store.of(workspace.host))


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something is changed. Raises UsageError where nobody can answer, typer.Abort for a no."""
    import sys

    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("confirmation needed, but stdin is not a terminal", "add `--yes` to go on without it")
    typer.confirm(question, abort=True, err=True)
