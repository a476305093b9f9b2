"""Merging a snapshot into the caches of a venv."""

from collections.abc import Sequence
from typing import Literal

from envdoctor.app.caches import CacheSubject, refuse_unknown_kinds, subject
from envdoctor.app.result import Dialog, Result
from envdoctor.cache import key_parts, relocate
from envdoctor.cache.archive import reading
from envdoctor.cache.compatibility import blockers, unsaid, warnings
from envdoctor.cache.key_parts import KeyComparison, KeyPart
from envdoctor.cache.manifest import Manifest, fingerprint
from envdoctor.cache.restore import Merged
from envdoctor.cache.restore import restore as merge
from envdoctor.cache.store import label
from envdoctor.cache.vouched import Vouched, Vouching, checked, vouched
from envdoctor.catalog.cache_kinds import PORTABLE
from envdoctor.doctor.workspace import Workspace
from envdoctor.errors import CacheError
from envdoctor.model.frozen import frozen, replace

UNVOUCHED = (
    "warning: {path} is code that torch will run, and nothing says who made it\n\n"
    "hint: `--sha256` pins it, `--signers` asks for a signature"
)


@frozen
class CacheRestored:
    """A snapshot, and what merging it did."""

    status: Literal["planned", "restored"]
    manifest: Manifest
    warnings: tuple[str, ...]
    """Differences between the machine of the snapshot and this one that do not refuse it."""
    signer: str = ""
    """Whose signature it has; empty when none was asked for."""
    merged: Merged | None = None
    kernels: int = 0
    """C++ kernels whose names hold the path of the venv they were made for."""
    renamed: int | None = None
    """How many of them have a name for this venv's path now; None when torch was not asked."""


@frozen
class CacheRestoreOptions:
    """How a snapshot is wanted."""

    vouching: Vouching = Vouching()
    include: tuple[str, ...] = ()
    """Kinds of cache beside inductor's and Triton's that it may write to."""
    live: bool = False
    force: bool = False
    dry_run: bool = False


def restore(workspace: Workspace, name: str, wishes: CacheRestoreOptions, dialog: Dialog) -> Result:
    """Merge a snapshot: all of it is verified first. Raises CacheError for a foreign, damaged or forged one."""
    live, force = wishes.live, wishes.force
    refuse_unknown_kinds(wishes.include)
    asked = subject(workspace, dialog.note)
    path = asked.store.find(name, asked.host.cwd)
    wanted = checked(wishes.vouching, asked.host.environ, asked.host.cwd)
    proven: list[Vouched] = []
    with reading(path, lambda raw: proven.append(vouched(raw, path, wanted, asked.host.environ))) as reader:
        manifest, text = reader.manifest()
        pinned = _require_wanted(asked, manifest, fingerprint(text))
        _refuse_other_roots(manifest, path.name, wishes.include)
        (found,) = proven
        if not (found.sha256 or found.signer or pinned or path.parent == asked.store.folder):
            dialog.note(UNVOUCHED.format(path=path))
        key = asked.key(live=live)
        warnings = _allowed(path.name, key_parts.compare(manifest.key, key), manifest, force=force)
        for warning in warnings:
            dialog.note(f"warning: {warning}")
        if wishes.dry_run:
            data = CacheRestored(status="planned", manifest=manifest, warnings=warnings, signer=found.signer)
            return Result(command="cache restore", data=data)
        folders = {root.kind: root.path for root in asked.roots(tuple(manifest.folders))}
        merged = merge(reader, manifest, folders)
    kept, kernels, renamed = _for_this_venv(asked, merged.manifest, key, live=live)
    # It keeps entries of a profile from a clean-up only where that profile was named: the snapshot says what it likes.
    own = asked.profile is not None and asked.profile.name == kept.profile
    label(asked.inductor, kept if own else replace(kept, profile=""))
    data = CacheRestored(
        status="restored",
        manifest=manifest,
        warnings=warnings,
        merged=merged,
        kernels=kernels,
        renamed=renamed,
        signer=found.signer,
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


def _refuse_other_roots(manifest: Manifest, name: str, include: Sequence[str]) -> None:
    """Refuse a snapshot that would write elsewhere than its user expects: the archive names the kinds of its files."""
    if more := sorted({file.root for file in manifest.files} - {*PORTABLE, *include}):
        options = " ".join(f"--include {kind}" for kind in more)
        raise CacheError(
            f"{name} has files of {', '.join(more)} too; nothing was taken from it",
            f"to merge those as well: `{options}`",
        )


def _require_wanted(asked: CacheSubject, manifest: Manifest, digest: str) -> bool:
    """Refuse a snapshot that is not the one the profile pins; tell whether it pins its content."""
    if asked.profile is None:
        return False
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
    return bool(wanted.cache_digest)


def _allowed(name: str, comparison: KeyComparison, manifest: Manifest, *, force: bool) -> tuple[str, ...]:
    """Return what is worth a warning; raise CacheError for a snapshot that cannot hit here."""
    against = (*unsaid(manifest.key), *blockers(comparison, manifest.entries))
    if against and not force:
        reasons = "\n".join(f"  - {reason}" for reason in against)
        raise CacheError(
            f"{name} was made for another machine or stack; nothing was taken from it:\n{reasons}",
            "restore that stack first, or add `--force` to merge entries that will not hit here",
        )
    return (*against, *warnings(comparison))
