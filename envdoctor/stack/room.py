"""How many bytes a restore writes on each file system, and how many are free there."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from packaging.utils import canonicalize_name

from envdoctor.errors import RestoreError
from envdoctor.facts.regular_file import read_text
from envdoctor.model.plan import Plan, PlannedPackage, Room
from envdoctor.model.wording import size

_MAXIMUM_RECORD = 32 << 20


def rooms(beside: Path, cache: Path, packages: Sequence[PlannedPackage], *, copies: bool) -> tuple[Room, ...]:
    """Return what a new venv in the folder `beside` takes, and what uv's cache takes for the wheels it lacks.

    Either folder may be yet to be made. uv links a venv's files from its cache where both are on one file system and
    unless `copies`; then the venv takes next to nothing of its own.
    """
    venv, kept, elsewhere = _existing(beside), _existing(cache), apart(beside, cache)
    fetched = {item.name: item.source.unpacked_bytes for item in packages if not item.source.cached}
    if not elsewhere and not copies:
        return (_room(venv, "venv and cache", fetched.values(), copies=False),)
    there = {item.name: item.version for item in packages if item.source.cached}
    copied = [*fetched.values(), *_in_cache(cache, there)]
    if not elsewhere:
        return (_room(venv, "venv and cache", [*copied, *fetched.values()], copies=True),)
    return (
        _room(venv, "venv", copied, copies=True),
        *([_room(kept, "cache", fetched.values(), copies=False)] if fetched else []),
    )


def apart(one: Path, other: Path) -> bool:
    """Tell whether two folders, or what there is of them, are on two mounts: uv copies from one to the other.

    Two mounts of one file system (a bind mount) count as two: link(2) does not lead from one to the other.
    """
    return _mount(_existing(one)) != _mount(_existing(other))


def _mount(folder: Path) -> tuple[int, str]:
    """Return the file system, and the mount where the kernel says which it is (proc(5))."""
    descriptor = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    try:
        lines = Path(f"/proc/self/fdinfo/{descriptor}").read_text().splitlines()
        mount = next((line for line in lines if line.startswith("mnt_id:")), "")
    except OSError:
        mount = ""
    finally:
        os.close(descriptor)
    return folder.stat().st_dev, mount


def refuse_too_little(plan: Plan) -> None:
    """Raise RestoreError where a file system has less room than the plan needs."""
    room = plan.lacking
    if room is None:
        return
    what = {"venv": "the new venv", "cache": "uv's cache", "venv and cache": "the new venv"}[room.holds]
    since = (
        "uv's cache is on another file system or mount"
        if room.holds == "venv"
        else "uv is told to copy (its link mode)"
    )
    why = f": its files are copied, since {since}" if room.copies else ""
    other = ", or put uv's cache elsewhere (`UV_CACHE_DIR`)" if room.holds == "cache" else ""
    raise RestoreError(
        f"too little room: {what} needs {size(room.bytes)} on the file system of {room.where}, which has "
        f"{size(room.free)} free{why}",
        f"free some space there (`envdoctor prune` removes old backups){other}, and run it again",
    )


def _room(where: Path, holds: str, sizes: Iterable[int | None], *, copies: bool) -> Room:
    listed = list(sizes)
    status = os.statvfs(where)
    blocks = status.f_bavail if os.getuid() else status.f_bfree
    return Room(
        where=str(where),
        holds=holds,  # type: ignore[arg-type]
        bytes=sum(filter(None, listed)),
        free=blocks * status.f_frsize,
        unsized=listed.count(None),
        copies=copies,
    )


def _existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.parents) if path.exists())


def _in_cache(cache: Path, wanted: Mapping[str, str]) -> list[int | None]:
    """Return the bytes of each wanted distribution (name -> version) as uv's cache has it unpacked; None for unknown.

    uv keeps each wheel unpacked in a folder of its own below archive-v0; it has no command that tells.
    """
    found: dict[str, int] = {}
    for record in cache.glob("archive-v*/*/*.dist-info/RECORD"):
        name, _, version = record.parent.name.removesuffix(".dist-info").rpartition("-")
        name = canonicalize_name(name)
        if wanted.get(name) == version:
            bytes_ = _recorded(record)
            found[name] = min(found.get(name, bytes_), bytes_)
    return [found.get(name) for name in wanted]


def _recorded(record: Path) -> int:
    import csv  # noqa: PLC0415 - seldom needed: uv links

    rows = read_text(record, _MAXIMUM_RECORD, "surrogateescape").splitlines()
    return sum(int(row[2]) for row in csv.reader(rows) if len(row) == 3 and row[2].isdecimal() and len(row[2]) < 20)
