"""What uv said that its cache holds, remembered: asked source by source, that takes longer than to link the stack.

An answer counts while everything that it was made of is as it was: uv itself, the interpreter, the configured sources,
and for each package the files of uv's cache and of the places on this machine, by inode, size and time. uv verifies the
hash of what it installs in any case; an answer that no longer holds costs one failed build, which forgets them all.
"""

import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from envdoctor.facts.host import Host
from envdoctor.facts.memo_file import memo_path, read_own, write_memo
from envdoctor.model.frozen import field, frozen
from envdoctor.model.plan import BaseInterpreter, Source
from envdoctor.standards.lock import LockedPackage
from envdoctor.wheels.index_config import IndexConfig
from envdoctor.wheels.urls import is_local, local_path
from envdoctor.wheels.uv import Uv
from envdoctor.wheels.uv_cache import folders
from envdoctor.wheels.wheel_names import WheelNames

_MAXIMUM = 8 * 1024 * 1024
_MAXIMUM_ENTRIES = 5_000
_SETTLED_NANOSECONDS = 2_000_000_000
"""Coarse file systems keep times to two seconds; a change within them leaves no trace."""
_LOCK = ".lock"


@frozen
class Question:
    """Who asks uv for wheels, and where it is to look."""

    uv: Uv
    interpreter: BaseInterpreter
    sources: IndexConfig
    torch_backend: str = ""
    offline: bool = False
    folder_given_by: str = "--wheelhouse FOLDER"
    """How this command is told of a folder of wheels."""


@frozen
class CachedAnswer:
    """A wheel that uv's cache holds."""

    source: Source
    chosen: str
    """Its sha256 where the lock allows several wheels; else empty."""


class CachedAnswers:
    """The answers of this user's earlier commands, and those of this one."""

    def __init__(self, path: Path | None = None) -> None:
        """Read what is known; a memo that is damaged, or that another user wrote, says nothing."""
        self._path = path
        self._known: dict[str, list[Any]] = {}
        self._scope, self._learned = "", False
        self._sources: tuple[str, ...] = ()
        self._folders: tuple[str, ...] = ()
        self._pages: tuple[str, ...] = ()
        try:
            told = json.loads(read_own(path, _MAXIMUM)) if path else {}
            self._known = {str(key): list(value) for key, value in told.items()}
        except (OSError, ValueError, AttributeError, TypeError, RecursionError):
            self._known = {}

    @classmethod
    def of(cls, host: Host) -> "CachedAnswers":
        """Return what this user's earlier commands were told."""
        return cls(memo_path("cached-wheels", Path("/"), host))

    def about(self, question: Question) -> None:
        """Say what is asked; answers to anything else do not count."""
        sources, interpreter = question.sources, question.interpreter
        self._sources = (*sources.find_links, *sources.indexes)
        asked = (
            question.uv.binary,
            _state(question.uv.binary),
            str(sources.cache),
            interpreter.path,
            interpreter.tag,
            interpreter.glibc,
            sources.find_links,
            sources.indexes,
            question.torch_backend,
            question.offline,
        )
        # A digest: places may carry a password, and a memo is no place for one.
        self._scope = hashlib.sha256(repr(asked).encode()).hexdigest()[:32]
        self._folders = tuple(folders(sources.cache, "wheels-v"))
        self._pages = tuple(folders(sources.cache, "simple-v"))

    def of_package(self, package: LockedPackage) -> CachedAnswer | None:
        """Return the answer about a package where it still counts."""
        try:
            kind, place, chosen, files, witness = self._known[self._key(package)]
            if witness != self._witness(package, files)[0]:
                return None
            location = self._sources[place] if isinstance(place, int) else str(place)
        except (KeyError, ValueError, TypeError, IndexError):
            return None
        return CachedAnswer(source=Source(kind=kind, location=location, cached=True, bytes=0), chosen=chosen)

    def learn(self, package: LockedPackage, answer: CachedAnswer, wheels: Iterable[Path]) -> None:
        """Note an answer of uv's. `wheels`: those of places on this machine that fit."""
        source, files = answer.source, sorted(str(path) for path in wheels)
        place = self._sources.index(source.location) if source.location in self._sources else source.location
        witness, newest = self._witness(package, files)
        if witness and newest < time.time_ns() - _SETTLED_NANOSECONDS:
            self._known[self._key(package)] = [source.kind, place, answer.chosen, files, witness]
            self._learned = True

    def save(self) -> None:
        """Write it down where something is new; the longest known give way."""
        if not self._learned or self._path is None:
            return
        try:
            write_memo(self._path, json.dumps(dict(list(self._known.items())[-_MAXIMUM_ENTRIES:])).encode())
        except OSError:
            return  # the next plan asks uv again

    def forget(self) -> None:
        """Let nothing of it count any more: uv did not have what it once said it has."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def _key(self, package: LockedPackage) -> str:
        return f"{self._scope} {package.name}=={package.version} {','.join(package.hashes)}"

    def _witness(self, package: LockedPackage, wheels: Sequence[str]) -> tuple[str, int]:
        """Return the state of everything that an answer about a package is made of, and the latest time in it.

        Empty where uv's cache has nothing of that version.
        """
        name = package.name
        held = [state for folder in self._folders for state in _inside(f"{folder}/{name}", f"{package.version}-")]
        pages = [page for folder in self._pages if os.path.exists(page := f"{folder}/{name}.rkyv")]  # noqa: PTH110
        places = [local_path(place) for place in self._sources if is_local(place)]
        local = [_state(path) for place in places for path in (place, place / name, place / name / "index.html")]
        local += [_state(path) for path in wheels]
        if not held:
            return "", 0
        told = repr((sorted(held), pages, local))
        times = [state[2] for _, state, _ in held if state] + [state[2] for state in local if state]
        return hashlib.sha256(told.encode()).hexdigest(), max(times)


@frozen
class Remembered:
    """What earlier commands of this user saw of wheels."""

    names: WheelNames = field(default_factory=WheelNames)
    answers: CachedAnswers = field(default_factory=CachedAnswers)

    @classmethod
    def of(cls, host: Host) -> "Remembered":
        """Read it."""
        return cls(names=WheelNames.of(host), answers=CachedAnswers.of(host))


def _inside(
    folder: str, version: str
) -> Iterator[tuple[str, tuple[int, int, int] | None, tuple[int, int, int] | None]]:
    """Yield path, own state and state of what it leads to (without its time) of what the cache has of a version."""
    try:
        names = os.listdir(folder)  # noqa: PTH208 - a string path
    except OSError:
        return
    for name in names:
        if name.startswith(version) and not name.endswith(_LOCK):
            path = f"{folder}/{name}"
            there = _state(path)
            # A venv that links its files moves no time of the unpacked folder; uv's own work in it may.
            yield path, _state(path, follow=False), (*there[:2], 0) if there else None


def _state(path: str | Path, *, follow: bool = True) -> tuple[int, int, int] | None:
    """Return inode, size and time of last change of contents; None for what cannot be looked at."""
    try:
        status = os.stat(path, follow_symlinks=follow)  # noqa: PTH116 - string paths
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
