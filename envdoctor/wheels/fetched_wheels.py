"""Filling a wheelhouse: every wheel of a lock, held to its hash, going on where an earlier fetch stopped."""

import fcntl
import os
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event as Flag
from threading import Lock as Mutex

from envdoctor.errors import FetchError
from envdoctor.facts.on_failure import on_failure
from envdoctor.model.events import Event, Listener
from envdoctor.model.frozen import frozen
from envdoctor.model.wording import counted
from envdoctor.wheels.download import Download, DownloadError
from envdoctor.wheels.locked_wheels import Job, Missing, Search
from envdoctor.wheels.urls import Access

_THREADS = 4


@frozen
class Fetched:
    """What the wheelhouse holds now."""

    folder: Path
    fetched: tuple[Path, ...]
    present: tuple[Path, ...]
    """Were there before, and have a locked hash."""
    missing: tuple[Missing, ...]
    bytes: int
    """Of all wheels of the lock that are there."""


def fetch(search: Search, folder: Path, access: Access, listen: Listener) -> Fetched:
    """Fetch what was found and is not there. One wheel that fails leaves the others going.

    Raises FetchError when the folder cannot be written or has no room, or another fetch is filling it.
    """
    with _alone(folder):
        _refuse_too_full(search.jobs, folder)
        progress = _Progress(listen, sum(job.file.size or 0 for job in search.jobs))
        if search.jobs:
            progress.say(counted(len(search.jobs), "wheel"))
        outcomes = _all(search.jobs, folder, access, progress)
        fetched = tuple(one for one in outcomes if isinstance(one, Path))
        missing = [*search.missing, *(one for one in outcomes if isinstance(one, Missing))]
        return Fetched(
            folder=folder,
            fetched=fetched,
            present=search.present,
            missing=tuple(sorted(missing, key=lambda one: one.name)),
            bytes=sum(path.stat().st_size for path in (*fetched, *search.present)),
        )


def _all(jobs: Sequence[Job], folder: Path, access: Access, progress: "_Progress") -> list[Path | Missing]:
    stop = Flag()

    def one(job: Job) -> Path | Missing:
        started = Download(
            file=job.file, hashes=job.package.hashes, folder=folder, access=access, tick=progress.add, stop=stop
        )
        try:
            made = started.run()
        except DownloadError as error:
            return Missing(name=job.package.name, version=job.package.version, reason=error.reason, hint=error.hint)
        return made

    pool = ThreadPoolExecutor(_THREADS)
    try:
        # An interrupt: the threads stop at the next piece, and what has come stays for the next fetch.
        with on_failure(stop.set):
            return list(pool.map(one, jobs))
    finally:
        pool.shutdown(cancel_futures=True)


class _Progress:
    """Bytes of all downloads together."""

    def __init__(self, listen: Listener, total: int) -> None:
        self._listen, self._total, self._done, self._mutex = listen, total, 0, Mutex()

    def add(self, count: int) -> None:
        with self._mutex:
            self._done += count
            self._listen(Event(phase="fetch", text="", done=self._done, total=self._total))

    def say(self, text: str) -> None:
        with self._mutex:
            self._listen(Event(phase="fetch", text=text, done=self._done, total=self._total))


def _refuse_too_full(jobs: Sequence[Job], folder: Path) -> None:
    needed = sum(job.file.size or 0 for job in jobs)
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise FetchError(
            f"{folder} has {free / 1e9:.1f} GB left, and the wheels need {needed / 1e9:.1f} GB",
            "name a folder on another disk: `--wheelhouse DIR`",
        )


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the wheelhouse's lock, so that two fetches do not write the same file."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / ".fetch.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise FetchError(f"{folder} cannot be written: {error.strerror}", "name another: `--wheelhouse DIR`") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FetchError(
                f"another fetch is filling {folder}", "wait until it is done, then run this again"
            ) from None
        yield
    finally:
        os.close(descriptor)
