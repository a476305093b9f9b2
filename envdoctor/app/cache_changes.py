"""What fills the compile caches, and what is taken from them: saved, carried to another machine, put back."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from envdoctor.app.caches import subject, warm_hint
from envdoctor.app.result import Dialog, Result
from envdoctor.cache import blob, quarantine, snapshot
from envdoctor.cache.layout import roots
from envdoctor.cache.manifest import graph_files
from envdoctor.cache.snapshot import Purpose
from envdoctor.cache.store import checked, label
from envdoctor.catalog.cache_kinds import NAMES, PORTABLE
from envdoctor.doctor.workspace import Workspace
from envdoctor.errors import UsageError
from envdoctor.model.frozen import frozen


@frozen
class Saved:
    """A snapshot that was written."""

    name: str
    path: str
    bytes: int
    """Of the archive."""
    files: int
    unpacked_bytes: int
    entries: Mapping[str, int]
    """Kind of entry -> number."""
    key: str
    digest: str


@frozen
class PutBack:
    """One root of a clean-up that was undone."""

    root: str
    """Kind of the root."""
    origin: str
    files: int
    """How many are back."""
    bytes: int
    present: int
    """How many were made again meanwhile and stay."""


@frozen
class Undone:
    """A clean-up that was undone."""

    stamp: str
    """Empty when there was none."""
    roots: tuple[PutBack, ...]


@frozen
class Imported:
    """A file of torch's that was merged."""

    file: str
    folder: str
    outcomes: Mapping[str, int]
    """Outcome -> number of entries."""


@frozen
class Exported:
    """A file that torch can load."""

    file: str
    bytes: int
    folder: str
    entries: Mapping[str, int]
    """Kind of entry -> number."""


def save(workspace: Workspace, name: str, include: Sequence[str], dialog: Dialog, *, live: bool, force: bool) -> Result:
    """Write the caches of the target venv into one archive. Raises UsageError, CacheError."""
    if unknown := sorted(set(include) - set(NAMES)):
        raise UsageError(f"`{unknown[0]}` is not a kind of cache", f"known: {', '.join(NAMES)}")
    asked = subject(workspace, dialog.note)
    path = asked.store.archive(name)
    if path.exists() and not force:
        raise UsageError(f"{path} exists", "choose another name, or replace it with `--force`")
    taken = asked.roots((*PORTABLE, *include))
    purpose = Purpose(
        name=checked(name),
        profile=asked.profile.name if asked.profile else "",
        profile_digest=asked.profile_digest,
    )
    manifest = snapshot.describe(taken, asked.key(live=live), purpose)
    if not graph_files(manifest):
        where = ", ".join(str(root.path) for root in taken)
        raise UsageError(f"there is no compiled graph to save in {where}", warm_hint(workspace))
    for left in manifest.left_out:
        dialog.note(f"warning: left out, damaged: {left}")
    digest = snapshot.save(path, manifest)
    label(asked.inductor, manifest)
    data = Saved(
        name=name,
        path=str(path),
        bytes=path.stat().st_size,
        files=len(manifest.files),
        unpacked_bytes=manifest.bytes,
        entries=dict(manifest.entries),
        key=manifest.key_digest,
        digest=digest,
    )
    return Result(command="cache save", data=data)


def undo(workspace: Workspace, stamp: str = "") -> Result:
    """Put back what the clean-up of that stamp took, or the last one, if any. Raises UsageError, CacheError."""
    found = quarantine.listed(roots(workspace.with_variables().host))
    wanted = stamp or (found[0].stamp if found else "")
    chosen = [item for item in found if item.stamp == wanted]
    if stamp and not chosen:
        raise UsageError(
            f"no clean-up has the stamp {stamp}", "`envdoctor cache gc --purge --dry-run` lists what there is"
        )
    done = []
    for item in chosen:
        back, present = quarantine.put_back(item)
        done.append(PutBack(root=item.root, origin=str(item.origin), files=back, bytes=item.bytes, present=present))
    return Result(command="cache undo", data=Undone(stamp=wanted, roots=tuple(done)))


def import_(workspace: Workspace, file: str) -> Result:
    """Merge a file of torch.compiler.save_cache_artifacts(). Raises UsageError, CacheError."""
    host = workspace.with_variables().host
    inductor = next(root.path for root in roots(host) if root.kind == "inductor")
    try:
        content = Path(host.cwd, file).read_bytes()
    except OSError as error:
        raise UsageError(
            f"cannot read {file}: {error.strerror}", "name the file torch's cache was written to"
        ) from error
    outcomes = blob.merge(blob.read(content, file), inductor)
    return Result(command="cache import", data=Imported(file=file, folder=str(inductor), outcomes=dict(outcomes)))


def export(workspace: Workspace, file: str) -> Result:
    """Write the graphs as one file for torch.compiler.load_cache_artifacts(). Raises UsageError."""
    host = workspace.with_variables().host
    root = next(root for root in roots(host) if root.kind == "inductor")
    target = Path(host.cwd, file)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("w+b") as out:
            counted = blob.export(root, out)
        if not counted:
            raise UsageError(f"there is no compiled graph in {root.path}", warm_hint(workspace))
        temporary.replace(target)
    except OSError as error:
        raise UsageError(
            f"cannot write {file}: {error.strerror}", "name a file in a folder you may write to"
        ) from error
    finally:
        temporary.unlink(missing_ok=True)
    data = Exported(file=file, bytes=target.stat().st_size, folder=str(root.path), entries=dict(counted))
    return Result(command="cache export", data=data)
