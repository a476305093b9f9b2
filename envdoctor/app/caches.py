"""The compile caches of a venv: whether they will hit, and the snapshots there are."""

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from envdoctor.app.result import Dialog, Result
from envdoctor.cache import runtime_key as live_key
from envdoctor.cache import status as cache_status
from envdoctor.cache.archive import reading
from envdoctor.cache.key_parts import KeyPart
from envdoctor.cache.layout import Root, roots
from envdoctor.cache.manifest import Manifest, fingerprint, load
from envdoctor.cache.static_key import key_parts
from envdoctor.cache.status import Status
from envdoctor.cache.store import SnapshotStore, labels
from envdoctor.catalog.cache_kinds import NAMES, PORTABLE
from envdoctor.doctor.workspace import Workspace
from envdoctor.errors import CacheError, UsageError
from envdoctor.exitcodes import ExitCode
from envdoctor.facts.context import Reading
from envdoctor.facts.host import Host
from envdoctor.facts.owned import trusted_with
from envdoctor.model.frozen import frozen
from envdoctor.model.profile import Profile
from envdoctor.probes.caches.compile_caches import CompileCaches

_EXIT = {"hit": ExitCode.OK, "unknown": ExitCode.UNKNOWN}


@frozen
class CacheSubject:
    """The environment whose caches are meant."""

    workspace: Workspace
    """With the environment that the profile's launch sets."""
    reading: Reading
    store: SnapshotStore
    note: Callable[[str], None]
    """Says one thing beside the result."""

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

    def key(self, *, live: bool = False, trust_variables: bool = False) -> tuple[KeyPart, ...]:
        """Return the key as it is now; `live` asks the venv's torch.

        trust_variables: the profile may set variables that load code into it; else raises ProfileError.
        """
        static = key_parts(self.reading)
        if not live:
            return static
        if not trust_variables:
            self.workspace.refuse_code_variables()
        self.note(f"asking the torch of {self.reading.target.prefix}")
        return live_key.merged(static, live_key.ask(self.python, self.host.environ, self.host.cwd))


def subject(workspace: Workspace, note: Callable[[str], None]) -> CacheSubject:
    """Return the caches of the target venv, seen as the profile's launch would see them."""
    seen = workspace.with_variables()
    return CacheSubject(workspace=seen, reading=seen.reading(), store=SnapshotStore.of(seen.host), note=note)


def refuse_unknown_kinds(kinds: Sequence[str]) -> None:
    """Raise UsageError for what is not a kind of cache."""
    if unknown := sorted(set(kinds) - set(NAMES)):
        raise UsageError(f"`{unknown[0]}` is not a kind of cache", f"known: {', '.join(NAMES)}")


def warm_hint(workspace: Workspace) -> str:
    """Return the sentence that names the command which fills the caches, with the profile as it was named."""
    if workspace.profile:
        return f"`envdoctor cache warm --profile {shlex.quote(workspace.profile.asked)}` fills it"
    return "`envdoctor cache warm` fills it, for a profile (`envdoctor profiles` lists them)"


@frozen
class CacheStatus:
    """Whether the caches of a venv will hit."""

    target: str
    profile: str
    """Its name; empty without one."""
    profile_asked: str
    """As it was named, for commands to paste."""
    status: Status


@frozen
class Snapshots:
    """The snapshots of a store."""

    folder: str
    found: tuple[dict[str, Any], ...]


def status(workspace: Workspace, dialog: Dialog, *, live: bool = False) -> Result:
    """Say whether the caches will hit; `live` runs the venv's interpreter. Raises CacheError."""
    asked = subject(workspace, dialog.note)
    found = look(asked, live=live)
    data = CacheStatus(
        target=str(asked.reading.target.prefix),
        profile=asked.profile.name if asked.profile else "",
        profile_asked=asked.profile_asked,
        status=found,
    )
    code = _EXIT.get(found.state, ExitCode.FINDINGS)
    # A second reason of a hit is what nobody looked at.
    told = ExitCode.UNKNOWN if found.state == "hit" and found.reasons[1:] else code
    return Result(command="cache status", data=data, exit_code=told)


def snapshots(host: Host) -> Result:
    """List the snapshots of this user's store; one that cannot be read says why."""
    store = SnapshotStore.of(host)
    found = tuple(_describe(path) for path in store.archives())
    return Result(command="cache list", data=Snapshots(folder=str(store.folder), found=found))


def look(asked: CacheSubject, *, live: bool = False) -> Status:
    """Return the status of the caches the subject would use."""
    return cache_status.examine(
        asked.reading.fact(CompileCaches).caches,
        known_manifests(asked),
        asked.key(live=live),
        trusted=trusted_with(asked.reading.target.prefix, asked.host.uid),
        environ=asked.host.environ,
        wanted=asked.profile.compile if asked.profile else None,
        live=live,
    )


def known_manifests(asked: CacheSubject) -> tuple[Manifest, ...]:
    """Return the manifests that may describe the subject's caches: those inside, and the profile's last warm-up."""
    found = labels(asked.inductor)
    for problem in found.problems:
        asked.note(f"warning: {problem}")
    inside = found.manifests
    kept = load(asked.store.warm_manifest(asked.profile.name)) if asked.profile else None
    return (*inside, *((kept,) if kept else ()))


def _describe(path: Path) -> dict[str, Any]:
    described: dict[str, Any] = {"path": str(path), "bytes": path.lstat().st_size}
    try:
        with reading(path) as reader:
            manifest, text = reader.manifest()
    except CacheError as error:
        return described | {"problem": error.message}
    return described | {
        "name": manifest.name,
        "profile": manifest.profile,
        "made_at": manifest.made_at,
        "key": manifest.key_digest,
        "digest": fingerprint(text),
        "files": len(manifest.files),
        "unpacked_bytes": manifest.bytes,
        "entries": dict(manifest.entries),
    }
