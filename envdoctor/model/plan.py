"""What a restore is going to do: shown before anything changes."""

from collections.abc import Mapping
from typing import Literal

from envdoctor.model.frozen import frozen

SourceKind = Literal["find-links", "index", "backend", "configured"]
"""find-links: a configured folder or page; index: a configured index or the default one; backend: the torch backend's
own index; configured: one of the configured sources, not told which."""


@frozen
class BaseInterpreter:
    """A base interpreter (never a venv's own), as it described itself when run."""

    path: str
    version: str
    """"3.12.1"."""
    found_via: str
    markers: Mapping[str, str]
    """PEP 508 environment."""
    tag: str
    """"cp312"; with the ABI's suffix for a free-threaded build ("cp314t")."""
    glibc: str = ""
    """"2.36"; empty when the C library is another one."""


@frozen
class Source:
    """Where a wheel will come from."""

    kind: SourceKind
    location: str = ""
    """Folder or URL as configured; the backend's name; empty when it is not told."""
    cached: bool = False
    """uv has it unpacked in its cache for this source, from a wheel with a locked hash."""
    filename: str = ""
    bytes: int | None = None
    """Bytes to download; 0 for what is on this machine, None when the source does not say."""
    unpacked_bytes: int | None = None
    """Bytes of its files; None when that is not known."""


@frozen
class PlannedPackage:
    """A locked package and its source."""

    name: str
    version: str
    source: Source


@frozen
class Unavailable:
    """A locked package that no source has, why, and what can be done."""

    name: str
    version: str
    reason: str
    hint: str
    transient: bool = False
    """A source that may have it did not answer: the same command may succeed in a moment."""


@frozen
class Change:
    """A distribution that differs between the old venv and the lock; an empty `before` means added, `after` removed."""

    name: str
    before: str
    after: str
    note: str = ""
    """What the user may want to put back ("editable from /srv/trainer")."""


@frozen
class VenvUser:
    """A running process that uses the venv."""

    pid: int
    command: str
    how: Literal["runs", "works inside"] = "runs"
    """runs: its program or libraries are the venv's; works inside: its working directory is in the venv."""
    mapped: int = 0
    """How many files of the venv it maps."""

    def __str__(self) -> str:
        """Return "process 812: python train.py (maps 214 of its files)"."""
        started = "started from it" if self.how == "runs" else "works inside it"
        return f"process {self.pid}: {self.command} ({f'maps {self.mapped} of its files' if self.mapped else started})"


@frozen
class SourceChange:
    """One file that is to be put back."""

    path: str
    """Relative to the project's folder, as the profile names it."""
    commit: str
    """The newest commit that has it as the profile wants it."""
    before: str
    """sha256 of what is there now; empty when it is missing."""
    sha256: str


@frozen
class Room:
    """Bytes that a restore writes on one file system, and those free there."""

    where: str
    """A folder on it."""
    holds: Literal["venv", "cache", "venv and cache"]
    bytes: int
    """At least this many: what is not known is not counted, nor what blocks and folders add."""
    free: int
    unsized: int
    """How many packages are not counted."""
    copies: bool = False
    """Files are copied from uv's cache, which cannot be linked from there."""

    @property
    def enough(self) -> bool:
        """Tell whether as much is free as is known to be needed."""
        return self.bytes <= self.free


@frozen
class Plan:
    """A whole restore, before it runs."""

    target: str
    """The venv, as an absolute path with symlinks resolved."""
    exists: bool
    profile: str
    lock: str
    """The lock's path."""
    interpreter: BaseInterpreter
    old_interpreter: str
    """Version of the venv's present interpreter; empty when it does not exist or cannot be determined."""
    packages: tuple[PlannedPackage, ...]
    unavailable: tuple[Unavailable, ...]
    changes: tuple[Change, ...]
    unchanged: int
    """Distributions that have the locked version already."""
    warnings: tuple[str, ...]
    """Settings that contradict the lock, and what the new venv will not have."""
    steps: tuple[str, ...]
    offline: bool = False
    """Nothing may be fetched."""
    users: tuple[VenvUser, ...] = ()
    """Running processes that use the venv."""
    sources: tuple[SourceChange, ...] = ()
    """Files of the training code that are to be put back from git; only when that was asked for."""
    rooms: tuple[Room, ...] = ()
    """What it writes, one for each file system."""

    @property
    def possible(self) -> bool:
        """Tell whether every package was found and there is room for them, as far as is known."""
        return not self.unavailable and self.lacking is None

    @property
    def lacking(self) -> Room | None:
        """The file system that has too little room; None when each has enough, as far as is known."""
        return next((room for room in self.rooms if not room.enough), None)

    @property
    def download_bytes(self) -> int:
        """Bytes to download, as far as the sources say."""
        return sum(package.source.bytes or 0 for package in self.packages)

    @property
    def unsized(self) -> int:
        """How many packages have an unknown download size."""
        return sum(package.source.bytes is None for package in self.packages)

    @property
    def cached(self) -> int:
        """How many packages uv has in its cache."""
        return sum(package.source.cached for package in self.packages)
