"""Merging a snapshot into the caches of a venv."""

from collections.abc import Sequence
from typing import Literal

from envdoctor.app.caches import CacheSubject, subject
from envdoctor.app.result import Dialog, Result
from envdoctor.cache import key_parts, relocate
from envdoctor.cache.archive import reading
from envdoctor.cache.compatibility import blockers, warnings
from envdoctor.cache.key_parts import KeyComparison, KeyPart
from envdoctor.cache.manifest import Manifest, fingerprint
from envdoctor.cache.restore import Merged
from envdoctor.cache.restore import restore as merge
from envdoctor.cache.store import label
from envdoctor.doctor.workspace import Workspace
from envdoctor.errors import CacheError
from envdoctor.model.frozen import frozen


@frozen
class CacheRestored:
    """A snapshot, and what merging it did."""

    status: Literal["planned", "restored"]
    manifest: Manifest
    warnings: tuple[str, ...]
    """Differences between the machine of the snapshot and this one that do not refuse it."""
    merged: Merged | None = None
    kernels: int = 0
    """C++ kernels whose names hold the path of the venv they were made for."""
    renamed: int | None = None
    """How many of them have a name for this venv's path now; None when torch was not asked."""


def restore(workspace: Workspace, name: str, dialog: Dialog, *, live: bool, force: bool, dry_run: bool) -> Result:
    """Merge a snapshot: all of it is verified first. Raises CacheError for a foreign, damaged or forged one."""
    asked = subject(workspace, dialog.note)
    path = asked.store.find(name, asked.host.cwd)
    with reading(path) as reader:
        manifest, text = reader.manifest()
        _require_wanted(asked, manifest, fingerprint(text))
        key = asked.key(live=live)
        warnings = _allowed(path.name, key_parts.compare(manifest.key, key), manifest, force=force)
        for warning in warnings:
            dialog.note(f"warning: {warning}")
        if dry_run:
            data = CacheRestored(status="planned", manifest=manifest, warnings=warnings)
            return Result(command="cache restore", data=data)
        folders = {root.kind: root.path for root in asked.roots(tuple(manifest.folders))}
        merged = merge(reader, manifest, folders)
    kept, kernels, renamed = _for_this_venv(asked, merged.manifest, key, live=live)
    label(asked.inductor, kept)
    data = CacheRestored(
        status="restored", manifest=manifest, warnings=warnings, merged=merged, kernels=kernels, renamed=renamed
    )
    return Result(command="cache restore", data=data)


def _for_this_venv(
    asked: CacheSubject, manifest: Manifest, key: Sequence[KeyPart], *, live: bool
) -> tuple[Manifest, int, int | None]:
    """Give C++ kernels of a venv at another path this venv's names; return also their number and how many have one."""
    kernels = relocate.needed(manifest, key)
    if not kernels:
        return manifest, 0, None
    if not live:
        asked.note(
            f"warning: the names of {kernels} C++ kernels hold the path of the venv they were made for; they will be "
            "compiled again\n\nhint: `--live` asks this venv's torch for its names"
        )
        return manifest, kernels, None
    done = relocate.relocate(manifest, asked.inductor, key, asked.python, asked.host.environ, asked.host.cwd)
    return done.manifest, done.kernels, done.renamed


def _require_wanted(asked: CacheSubject, manifest: Manifest, digest: str) -> None:
    """Refuse a snapshot that is not the one the profile pins."""
    if asked.profile is None:
        return
    wanted = asked.profile.compile
    for what, found, pinned in (
        ("key", manifest.key_digest, wanted.cache_key),
        ("digest", digest, wanted.cache_digest),
    ):
        if pinned and found != pinned:
            raise CacheError(
                f"{manifest.name} has the {what} {found}, profile {asked.profile.name} pins {pinned}; nothing was "
                "taken from it",
                "restore the snapshot the profile names, or restore without `--profile`",
            )


def _allowed(name: str, comparison: KeyComparison, manifest: Manifest, *, force: bool) -> tuple[str, ...]:
    """Return what is worth a warning; raise CacheError for a snapshot that cannot hit here."""
    against = blockers(comparison, manifest.entries)
    if against and not force:
        reasons = "\n".join(f"  - {reason}" for reason in against)
        raise CacheError(
            f"{name} was made for another machine or stack; nothing was taken from it:\n{reasons}",
            "restore that stack first, or add `--force` to merge entries that will not hit here",
        )
    return (*against, *warnings(comparison))
