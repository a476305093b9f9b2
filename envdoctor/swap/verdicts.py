"""What the checks found in each venv when it was put away: a backup that was broken is told from a good one."""

import json
from contextlib import suppress
from pathlib import Path

from envdoctor.facts.owned import read_of
from envdoctor.facts.whole_file import write_whole
from envdoctor.model.codec import CodecError, decode, encode
from envdoctor.model.frozen import frozen
from envdoctor.standards.bounded_json import loads
from envdoctor.swap.durable import inode
from envdoctor.swap.store import BackupStore

_MAXIMUM = 1 << 20


@frozen
class KeptError:
    """One error that the checks found."""

    code: str
    title: str


@frozen
class KeptVerdict:
    """What the checks said of a venv by itself, without a profile, at the moment it was put away."""

    errors: tuple[KeptError, ...] = ()
    could_not_tell: tuple[str, ...] = ()
    """Codes of the checks of the venv that could not read their facts."""


@frozen
class _Entry:
    """A verdict and the venv it is about: numbers come back, and folders of a mount point are made again."""

    inode: int
    """Of the venv's pyvenv.cfg, which moves with it."""
    verdict: KeptVerdict


def read(store: BackupStore) -> dict[int, KeptVerdict]:
    """Return number -> verdict, for the kept venvs that have one. A file that cannot be read says nothing."""
    return {number: entry.verdict for number, entry in _entries(store).items()}


def write(store: BackupStore, kept: Path | None = None, verdict: KeptVerdict | None = None) -> None:
    """Note the verdict on the venv that is now kept at `kept`, and forget those on venvs that are gone.

    Where it cannot be written (a full disk) that venv has no verdict: nothing else depends on it.
    """
    entries = _entries(store)
    if kept is not None:
        entries.pop(int(kept.name), None)
        if verdict is not None and (found := inode(kept / "pyvenv.cfg")) is not None:
            entries[int(kept.name)] = _Entry(inode=found, verdict=verdict)
    with suppress(OSError):
        if entries:
            told = {str(number): encode(entry) for number, entry in sorted(entries.items())}
            write_whole(store.verdicts, (json.dumps(told, indent=1) + "\n").encode())
        else:
            store.verdicts.unlink(missing_ok=True)


def _entries(store: BackupStore) -> dict[int, _Entry]:
    try:
        told = loads(read_of(store.verdicts, store.owners, _MAXIMUM))
        entries: dict[int, _Entry] = {int(number): decode(_Entry, entry) for number, entry in told.items()}
    except (OSError, ValueError, AttributeError, CodecError, RecursionError):
        return {}
    return {
        number: entry
        for number, entry in entries.items()
        if inode(store.generation(number) / "pyvenv.cfg") == entry.inode
    }
