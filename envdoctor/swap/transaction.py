"""One exchange of a venv, from taking the lock to the last fsync: in the end it is the old one or the new one.

Restore and repair differ in how they make the copy; what comes before and after is the same, and is here.
"""

import errno
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Generic, TypeVar

from envdoctor.errors import RestoreError
from envdoctor.facts.host import Host
from envdoctor.facts.stops import put_off
from envdoctor.model.events import Event, Listener
from envdoctor.model.frozen import field, frozen
from envdoctor.swap import durable, journal, made_folders, verdicts
from envdoctor.swap.journal import Command, JournalEntry
from envdoctor.swap.shown import Identity, ShownVenv, identity, refuse_replaced
from envdoctor.swap.store import BackupStore, locked, remove_tree
from envdoctor.swap.swap import put_in_place
from envdoctor.swap.verdicts import KeptVerdict

T = TypeVar("T")


class Clock:
    """Wall time by phase."""

    def __init__(self) -> None:
        """Start with no laps."""
        self.laps: dict[str, float] = {}
        self._since = time.monotonic()

    def lap(self, name: str) -> None:
        """Note the seconds since the last lap."""
        now = time.monotonic()
        self.laps[name] = round(now - self._since, 3)
        self._since = now


@frozen
class Opened:
    """The store, held alone."""

    descriptor: int
    """Of the lock; a child that inherits it goes on holding the lock when this process is killed."""
    recovered: tuple[str, ...]
    """What was done about an earlier, interrupted command."""


@frozen
class Copying:
    """What the maker of a copy is given."""

    folder: Path
    """Where the copy is to be made; it does not exist yet."""
    descriptor: int
    clock: Clock
    store: BackupStore
    shown: ShownVenv
    begun: list[Identity] = field(default_factory=list)

    def made(self) -> None:
        """Remember the copy, as soon as it is there: no other folder is swapped in, or removed.

        Once more where a command of the user's worked on it, which may have made the folder again.
        """
        if (found := identity(self.folder)) is not None:
            self.begun.append(found)

    def refuse_changes(self) -> None:
        """Raise RestoreError where the store, the venv or the copy is another one by now."""
        self.store.refuse_planted()
        self.shown.refuse_another(self.store)
        refuse_replaced(self.folder, self.begun[-1] if self.begun else None)

    @property
    def replaced(self) -> bool:
        """Tell whether something else is in the copy's place."""
        found = identity(self.folder)
        return bool(self.begun) and found is not None and found not in self.begun


@frozen
class Exchanged(Generic[T]):
    """A finished exchange."""

    made: T
    kept: Path | None
    """Where the old venv is now; None when there was none."""
    recovered: tuple[str, ...]
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Wall seconds of each phase."""


@contextmanager
def opened(store: BackupStore, listen: Listener) -> Iterator[Opened]:
    """Hold the store's lock and first put right what an interrupted command left. Raises RestoreError.

    Folders that are made above a venv go again where none is there in the end.
    """
    made = made_folders.missing(store)
    try:
        with locked(store, lambda text: listen(Event(phase="recover", text=text))) as descriptor:
            with system_errors():
                recovered = journal.recover(store)
            for text in recovered:
                listen(Event(phase="recover", text=text))
            yield Opened(descriptor=descriptor, recovered=recovered)
    finally:
        made_folders.remove(store, made)


def recover_first(store: BackupStore, listen: Listener) -> tuple[str, ...]:
    """Put right what an interrupted command left, before a plan is made of what is there; return what was done.

    Takes the lock only where something was left. Raises RestoreError when another command is at work.
    """
    store.refuse_planted()
    left = store.journal.exists() or any(at.is_dir() and any(at.iterdir()) for at in (store.builds, store.scratches))
    if not left:
        return ()
    with opened(store, listen) as held:
        return held.recovered


def exchange(  # noqa: PLR0913 - what is exchanged, for whom, and what is known of it
    store: BackupStore,
    command: Command,
    profile: str,
    make: Callable[[Copying], T],
    listen: Listener,
    *,
    host: Host,
    shown: ShownVenv,
    verdict: Callable[[], KeptVerdict | None],
) -> Exchanged[T]:
    """Let `make` build and prove a copy, then swap it in. On any failure the copy is removed and the venv is as it was.

    `shown` is what the plan was made of; another venv is not exchanged. `verdict`, asked after `make`, is what the
    checks found in the old one.
    A venv that somebody has changed since the question, or since this began where nobody was asked, is not swapped: the
    change would be in the backup alone.
    What `make` leaves must be written out (syncfs, fsync): after a power cut it is as whole as the swap that follows.
    Raises RestoreError, and whatever `make` raises.
    """
    shown.refuse_another(store)  # before the store is made in a folder that nobody was shown
    with opened(store, listen) as held:
        shown.refuse_another(store)
        started = datetime.now(UTC)
        folder = store.builds / _name_of_copy(command, started)
        entry = JournalEntry(
            phase="building",
            command=command,
            profile=profile,
            build=str(folder),
            started=started.isoformat(timespec="seconds"),
        )
        clock = Clock()
        if shown.seen is None:
            shown = shown.with_entries(store, host)
        with system_errors():
            copying = Copying(folder=folder, descriptor=held.descriptor, clock=clock, store=store, shown=shown)
            try:
                store.builds.mkdir(exist_ok=True)
                journal.write(store, entry)
                made = make(copying)
                found = verdict()
                copying.refuse_changes()
                shown.refuse_changed()
                clock.lap("compare")
                listen(Event(phase="swap", text="swapping the new venv in"))
                with put_off():
                    copying.refuse_changes()
                    kept = put_in_place(store, entry)
                    verdicts.write(store, kept, found)
                clock.lap("swap")
            except BaseException as error:
                try:
                    left = _undo(store, copying)
                except Exception as another:
                    raise error from another  # what went wrong first says more
                if left is not None:
                    listen(Event(phase="recover", text=f"what was in the copy's place is now {left}"))
                raise
        return Exchanged(made=made, kept=kept, recovered=held.recovered, seconds=clock.laps)


def _name_of_copy(command: Command, started: datetime) -> str:
    """Return the name of the folder that a copy is made in.

    uv remembers by its path what it asked an interpreter: in a folder of one name a restore starts none to ask. A copy
    of the user's venv is asked each time, since another one may have been there before.
    """
    return "new" if command == "restore" else started.strftime("%Y%m%dT%H%M%S")


@contextmanager
def system_errors() -> Iterator[None]:
    """Turn the system's errors in the block into RestoreError, with what to do."""
    try:
        yield
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        hint = "run it as the owner of the venv's folder"
        if full:
            hint = "free some space (`envdoctor prune` removes old backups) and run it again"
        elif error.errno == errno.ENOTEMPTY:
            hint = "something still writes into that folder: end it, then run it again"
        elif error.errno == errno.ENAMETOOLONG:
            hint = "a folder in it is nested deeper than a path may be long: look at what makes it"
        what = "the disk is full" if full else error.strerror or str(error)
        raise RestoreError(f"{what}{where}", hint) from error


def _undo(store: BackupStore, copying: Copying) -> Path | None:
    """Remove the copy, unless the swap got so far that the folder is the old venv: then recovery puts it right.

    What somebody put in the copy's place is kept: a link stays, and a folder is moved out of `builds`, which the next
    command empties. Return where to.
    """
    store.refuse_planted()
    if copying.folder.is_symlink():
        journal.clear(store)
        return None
    entry = journal.read(store)
    if entry is not None and entry.phase != "building":
        journal.recover(store)
        return None
    aside = None
    if copying.replaced:
        aside = store.root / f"not-a-copy-{copying.folder.name}"
        while os.path.lexists(aside):
            aside = aside.with_name(f"{aside.name}-")
        durable.move(copying.folder, aside)
    remove_tree(copying.folder)
    journal.clear(store)
    return aside
