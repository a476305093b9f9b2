"""What a lock leaves out although its packages require it, by the metadata that uv's cache holds of its wheels."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from envdoctor.analysis.unmet import Unmet, unmet_among
from envdoctor.documents.profile_store import ProfileRef
from envdoctor.facts.host import Host
from envdoctor.facts.memo_file import memo_path, read_own, write_memo
from envdoctor.model.plan import BaseInterpreter
from envdoctor.probes.venv.distributions import Distribution, distribution_in
from envdoctor.standards.lock import LockedPackage
from envdoctor.standards.names import normalized

_CODE = "ED406"
_MAXIMUM_MEMO = 64 * 1024
_SHOWN = 3


def holes(
    locked: Mapping[str, LockedPackage], cache: Path, interpreter: BaseInterpreter, file: ProfileRef, host: Host
) -> tuple[str, ...]:
    """Return a warning for each distribution that is required and not locked, less those that the profile waives.

    Only what uv's cache has unpacked can be judged before it is built; the finished copy is judged in any case. A lock
    that was whole with this interpreter is remembered by its sha256, since it stays so.
    """
    known = _Whole(host)
    key = f"{file.lock_sha256} {interpreter.tag} {interpreter.markers['platform_machine']}"
    if known.has(key):
        return ()
    found = {item.name: item for item in _unpacked(cache, {name: one.version for name, one in locked.items()})}
    lacking: dict[str, list[Unmet]] = {}
    for unmet in unmet_among(found, {**interpreter.markers, "extra": ""}):
        if unmet.name not in locked:
            lacking.setdefault(unmet.name, []).append(unmet)
    if not lacking and len(found) == len(locked):
        known.add(key)
    waived = {normalized(one.subject) for one in file.profile.waivers if one.code == _CODE}
    return tuple(_text(name, items) for name, items in lacking.items() if name not in waived)


def _text(name: str, items: Sequence[Unmet]) -> str:
    told = "; ".join(item.text for item in items[:_SHOWN])
    more = f"; and {len(items) - _SHOWN} more" if len(items) > _SHOWN else ""
    return (
        f"the lock does not have {name}: {told}{more}. The finished copy fails {_CODE} unless another package has its "
        "modules: lock it again, or say in a waiver of the profile why the stack does without it"
    )


def _unpacked(cache: Path, wanted: Mapping[str, str]) -> Iterator[Distribution]:
    """Yield each wanted distribution (name -> version) that uv's cache has unpacked, once.

    uv keeps each wheel in a folder of its own below archive-v0; it has no command that tells.
    """
    left = dict(wanted)
    for archive in sorted(str(path) for path in cache.glob("archive-v*/*")):
        for folder in _metadata_folders(archive):
            name, _, version = folder.removesuffix(".dist-info").rpartition("-")
            name = normalized(name)
            if left.get(name) == version and (found := distribution_in(archive, folder)):
                del left[name]
                yield found


def _metadata_folders(archive: str) -> list[str]:
    try:
        return [name for name in os.listdir(archive) if name.endswith(".dist-info")]  # noqa: PTH208 - names only
    except OSError:
        return []


class _Whole:
    """Which locks were found whole; a memo that is damaged, or that another user wrote, says nothing."""

    def __init__(self, host: Host) -> None:
        self._path = memo_path("whole-locks", Path("/"), host)
        try:
            self._known = read_own(self._path, _MAXIMUM_MEMO).decode().splitlines()
        except (OSError, ValueError):
            self._known = []

    def has(self, key: str) -> bool:
        return key in self._known

    def add(self, key: str) -> None:
        try:
            write_memo(self._path, "\n".join([*self._known[-200:], key]).encode())
        except OSError:
            return  # the next plan reads the metadata again
