"""The venvs that were kept: what each is, going back to one, removing old ones."""

import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from envdoctor.errors import RestoreError, UsageError
from envdoctor.facts.host import Host
from envdoctor.facts.processes import closed
from envdoctor.facts.regular_file import read_regular
from envdoctor.facts.stops import put_off
from envdoctor.model.events import Event, Listener
from envdoctor.model.frozen import frozen
from envdoctor.model.plan import VenvUser
from envdoctor.probes.caches.compile_caches import locate
from envdoctor.probes.venv.own_packages import read_venv
from envdoctor.probes.venv.restore_note import NOTE
from envdoctor.standards.bounded_json import loads
from envdoctor.swap import durable, journal, verdicts
from envdoctor.swap.in_use import users, users_of
from envdoctor.swap.journal import JournalEntry
from envdoctor.swap.shown import ShownVenv
from envdoctor.swap.space import Space, Tree, scan, space
from envdoctor.swap.store import PRUNED, BackupStore, remove_tree
from envdoctor.swap.swap import put_in_place
from envdoctor.swap.transaction import Clock, opened, system_errors
from envdoctor.swap.unmanaged_files import CACHE_FOLDERS, unrecorded
from envdoctor.swap.verdicts import KeptVerdict

_SHOWN = 4
_MAXIMUM = 1 << 20


@frozen
class Generation:
    """One venv: a kept one, or the one in place."""

    number: int
    """0 for the venv in place."""
    path: str
    profile: str
    """What it was restored from; empty for a venv that envdoctor did not make."""
    python: str
    packages: int
    torch: str
    """Version of the distribution; empty without one."""
    made_at: str
    """When envdoctor made it, UTC; empty when it did not."""
    kept_at: str
    """When it was moved to where it is, UTC: its folder's change time."""
    inode: int
    """Of its folder: a number may come back, an agreed removal means this folder."""
    verdict: KeptVerdict | None = None
    """Of a kept one: what the checks found in it when it was put away; None when that is not known."""


@frozen
class RolledBack:
    """What a rollback did."""

    target: Path
    number: int
    kept: Path | None
    """Where the venv before it is now; None when there was none."""
    recovered: tuple[str, ...]
    seconds: float
    """Wall time of the exchange, the journal's writes included."""


@frozen
class Spared:
    """A generation that would have gone, but holds what must not be lost."""

    generation: Generation
    compile_cache: str = ""
    """Path of one that is in it."""
    unrecorded: tuple[str, ...] = ()
    """Files that no RECORD lists: the user's own."""
    users: tuple[VenvUser, ...] = ()
    """Running processes that use it."""

    @property
    def holds(self) -> str:
        """Return what that is."""
        if self.users:
            return f"what is in use by {'; '.join(map(str, self.users))}"
        if self.compile_cache:
            return f"a compile cache, {self.compile_cache}"
        more = f" and {len(self.unrecorded) - _SHOWN} more" if len(self.unrecorded) > _SHOWN else ""
        return f"files that no RECORD lists, {', '.join(self.unrecorded[:_SHOWN])}{more}"


@frozen
class PrunePlan:
    """What a prune would remove."""

    removed: tuple[Generation, ...]
    kept: tuple[Generation, ...]
    space: Space
    """Of the removed ones together."""
    spared: tuple[Spared, ...]
    unseen: int = 0
    """Processes of which what they use could not be determined."""


def describe(venv: Path, number: int, verdict: KeptVerdict | None = None) -> Generation:
    """Return what a venv is, from its files alone; `verdict` is what is known of it."""
    note = _note(venv)
    found = read_venv(venv)
    status = venv.lstat()
    changed = datetime.fromtimestamp(status.st_ctime, UTC).isoformat(timespec="seconds")
    return Generation(
        number=number,
        path=str(venv),
        profile=note.get("profile", ""),
        python=found.python,
        packages=len(found.packages),
        torch=found.packages["torch"].version if "torch" in found.packages else "",
        made_at=note.get("restored_at", ""),
        kept_at=changed if number else "",
        inode=status.st_ino,
        verdict=verdict,
    )


def _note(venv: Path) -> dict[str, str]:
    try:
        told = loads(read_regular(venv / NOTE, _MAXIMUM))
        return {str(key): str(value) for key, value in told.items()}
    except (OSError, ValueError, AttributeError, RecursionError):
        return {}


def listed(store: BackupStore) -> tuple[Generation, ...]:
    """Return the kept generations, newest first."""
    known = verdicts.read(store)
    return tuple(describe(store.generation(number), number, known.get(number)) for number in reversed(store.numbers()))


def chosen(store: BackupStore, number: int | None) -> Path:
    """Return the generation to go back to: that number, else the newest. Raises UsageError when it cannot be used."""
    numbers = store.numbers()
    hint = f"`envdoctor history --venv {shlex.quote(str(store.target))}` lists what is kept"
    if not numbers:
        raise UsageError(f"no backup of {store.target} is kept, so there is nothing to go back to", hint)
    wanted = numbers[-1] if number is None else number
    if wanted not in numbers:
        raise UsageError(f"there is no backup {wanted} of {store.target}", hint)
    path = store.generation(wanted)
    if not (path / "bin" / "python").exists():
        raise RestoreError(
            f"backup {wanted} cannot run: its interpreter {_interpreter(path)} is gone",
            "choose another one with `envdoctor history`, or restore a profile",
        )
    return path


def _interpreter(venv: Path) -> str:
    link = venv / "bin" / "python"
    return str(link.readlink()) if link.is_symlink() else str(link)


def roll_back(
    store: BackupStore, back: Generation, listen: Listener, verdict: KeptVerdict | None = None, *, shown: ShownVenv
) -> RolledBack:
    """Exchange the venv with a kept one in one step; the venv before it, with its verdict, becomes the newest.

    `back` is the kept one, and `shown` the venv in place, as they were shown. Raises UsageError for a number that is
    not kept, and RestoreError, everything as it was, when it cannot be done.
    """
    shown.refuse_another(store)
    with opened(store, listen) as held, system_errors():
        # Chosen under the lock, after recovery: only now it is certain what is kept.
        path = chosen(store, back.number)
        shown.refuse_another(store)
        _refuse_another(store, back, durable.inode(path))
        shown.refuse_changed()
        clock = Clock()
        listen(Event(phase="swap", text=f"exchanging the venv with backup {int(path.name)}"))
        entry = JournalEntry(
            phase="swapping",
            command="rollback",
            profile=f"backup {int(path.name)}",
            build=str(path),
            started=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        try:
            with put_off():
                kept = put_in_place(store, entry)
                verdicts.write(store, kept, verdict)
        except (OSError, RestoreError):
            journal.recover(store)
            raise
        clock.lap("swap")
        return RolledBack(
            target=store.target,
            number=int(path.name),
            kept=kept,
            recovered=held.recovered,
            seconds=clock.laps["swap"],
        )


def plan_prune(
    store: BackupStore,
    keep: int,
    hosts: Sequence[Host],
    *,
    with_unrecorded: bool = False,
    while_in_use: bool = False,
    broken: bool = False,
) -> PrunePlan:
    """Return what `prune --keep` would remove: all but the newest `keep`, and none that holds a compile cache.

    Nor one that holds the user's files or that a process uses, unless `with_unrecorded` or `while_in_use` says that it
    may go. With `broken` only those go in which the checks found errors when they were put away.

    `hosts` is the machine as each launch sees it: its variables say where caches lie.
    """
    found = listed(store)
    going: list[Generation] = []
    spared: list[Spared] = []
    asked = [item for item in found[keep:] if not broken or (item.verdict and item.verdict.errors)]
    proc = hosts[0].proc
    using = {} if while_in_use else users_of([Path(item.path) for item in asked], proc)
    for generation in asked:
        path = Path(generation.path)
        if cache := next(filter(None, (compile_cache_in(path, store.target, host) for host in hosts)), ""):
            spared.append(Spared(generation=generation, compile_cache=cache))
        elif using.get(path):
            spared.append(Spared(generation=generation, users=using[path]))
        elif not with_unrecorded and (mine := unrecorded(path)):
            spared.append(Spared(generation=generation, unrecorded=tuple(mine)))
        else:
            going.append(generation)
    return PrunePlan(
        removed=tuple(reversed(going)),
        kept=tuple(item for item in found if item not in asked),
        space=space(scan(Path(generation.path)) for generation in going),
        spared=tuple(spared),
        unseen=len(closed(proc)) if using else 0,
    )


def compile_cache_in(generation: Path, target: Path, host: Host) -> str:
    """Return a compile cache inside the folder, or an empty string. Warm caches cost hours; they are never pruned."""
    for _, path, _ in locate(host):
        # A variable may name the cache by the venv's own path, under which this generation once lay.
        for root in (path, generation / path.relative_to(target) if path.is_relative_to(target) else path):
            if root.is_relative_to(generation) and root.is_dir():
                return str(root)
    for pattern in CACHE_FOLDERS:
        for depth in ("", "*/", "*/*/"):
            for path in generation.glob(depth + pattern):
                if path.is_dir() and "site-packages" not in path.parts[len(generation.parts) :]:
                    return str(path)
    return ""


def prune(
    store: BackupStore,
    removed: Sequence[Generation],
    listen: Listener,
    *,
    shown: ShownVenv,
    proc: Path | None = None,
    with_unrecorded: bool = False,
) -> tuple[str, ...]:
    """Remove those generations; return what was recovered first. Half a generation never looks like a whole one.

    proc: where to look for a process that uses one by now; None where that does not matter. Raises RestoreError for a
    generation that is not the one that was shown, holds what was not shown or is in use, and where the venv's folder is
    another than the one that was `shown`.
    """
    shown.refuse_elsewhere()
    with opened(store, listen) as held, system_errors():
        store.builds.mkdir(exist_ok=True)
        for generation in removed:
            path = Path(generation.path)
            listen(Event(phase="prune", text=f"removing backup {generation.number}"))
            found = durable.inode(path)
            if found is not None:
                _refuse_another(store, generation, found)
            if found is not None and not with_unrecorded and (mine := unrecorded(path)):
                raise RestoreError(
                    f"backup {generation.number} has gained a file since it was shown, {mine[0]}; it is left alone",
                    "look at it, then run this again",
                )
            if found is not None and proc and (using := users(path, proc)):
                raise RestoreError(
                    f"backup {generation.number} is in use since it was shown, by {using[0]}; it is left alone",
                    "wait until that process has ended, then run this again",
                )
            if found is not None:
                aside = store.builds / f"{PRUNED}{generation.number}"
                durable.move(path, aside)
                remove_tree(aside)
        verdicts.write(store)
        return held.recovered


def _refuse_another(store: BackupStore, shown: Generation, found: int | None) -> None:
    if found != shown.inode:
        raise RestoreError(
            f"backup {shown.number} is another venv than the one that was shown; it is left alone",
            f"`envdoctor history --venv {shlex.quote(str(store.target))}` lists what is kept",
        )


def trees(generations: Sequence[Generation]) -> dict[int, Tree]:
    """Return number -> the inodes of each."""
    return {generation.number: scan(Path(generation.path)) for generation in generations}
