"""What the `cache` commands share: their options, and the environment a command line means."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from envdoctor.cache import runtime_key as live_key
from envdoctor.cache.key_parts import Part
from envdoctor.cache.layout import PORTABLE, Root, roots
from envdoctor.cache.static_key import key_parts
from envdoctor.cache.store import Store
from envdoctor.cli.patient import locate
from envdoctor.cli.terminal import say
from envdoctor.documents import profile_store
from envdoctor.errors import UsageError
from envdoctor.facts.context import Options, Reading
from envdoctor.facts.host import Host
from envdoctor.model.frozen import frozen
from envdoctor.model.profile import Profile
from envdoctor.probes.registry import PROBES

VenvOption = Annotated[
    str,
    typer.Option("--venv", metavar="VENV", help="A venv's folder or interpreter. Default: $VIRTUAL_ENV, else ./.venv."),
]
LiveOption = Annotated[
    bool, typer.Option("--live", help="Ask the venv's own torch for its key: runs the venv's interpreter.")
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show what would happen and change nothing.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@frozen
class Subject:
    """The environment whose caches are meant."""

    reading: Reading
    profile: Profile | None
    profile_digest: str
    """sha256 of the profile file and its lock; empty without a profile."""
    store: Store

    @property
    def host(self) -> Host:
        """Return the machine, with the environment the profile's launch sets."""
        return self.reading.host

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


def launch_host(profile: str) -> tuple[Host, profile_store.ProfileFile | None]:
    """Return this machine with the variables the profile's launch sets: they decide where its caches lie."""
    host = Host.current()
    found = profile_store.find(profile, host.cwd) if profile else None
    if found:
        host = replace(host, environ={**host.environ, **found.profile.environment.set})
    return host, found


def subject(venv: str, profile: str) -> Subject:
    """Return the environment that was named, seen as the profile's launch would see it."""
    host, found = launch_host(profile)
    return Subject(
        reading=Reading(target=locate(venv, host), host=host, options=Options(), probes=PROBES),
        profile=found.profile if found else None,
        profile_digest=_digest(found) if found else "",
        store=Store.of(host),
    )


def _digest(file: profile_store.ProfileFile) -> str:
    content = hashlib.sha256(file.path.read_bytes())
    if file.lock_path.is_file():
        content.update(file.lock_path.read_bytes())
    return content.hexdigest()


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something is changed. Raises UsageError where nobody can answer, typer.Abort for a no."""
    import sys

    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("nobody is there to be asked", "add `--yes` when it is meant")
    typer.confirm(question, abort=True, err=True)
