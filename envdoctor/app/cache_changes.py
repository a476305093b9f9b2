"""What fills the compile caches, and what is taken from them: saved, carried to another machine, put back."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from envdoctor.app.cache_restore import UNVOUCHED
from envdoctor.app.caches import CacheSubject, known_manifests, refuse_unknown_kinds, subject, warm_hint
from envdoctor.app.result import Dialog, Result
from envdoctor.cache import blob, quarantine, snapshot
from envdoctor.cache.layout import Root, files, others_file, roots
from envdoctor.cache.manifest import graph_files
from envdoctor.cache.snapshot import Purpose
from envdoctor.cache.store import checked, label
from envdoctor.cache.vouched import Vouching, sign, vouched
from envdoctor.cache.vouched import checked as vouched_as
from envdoctor.cache.will_hit import proof_of
from envdoctor.catalog.cache_kinds import PORTABLE
from envdoctor.doctor.workspace import Workspace
from envdoctor.errors import CacheError, UsageError
from envdoctor.facts.owned import trusted_with
from envdoctor.facts.regular_file import open_regular
from envdoctor.facts.whole_file import beside, create
from envdoctor.model.frozen import frozen, replace
from envdoctor.probes.caches.compile_caches import CompileCaches

_MAXIMUM_BLOB = 8 << 30


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
    """Of the manifest, which names every file by its sha256: `compile.cache_digest` of a profile."""
    sha256: str
    """Of the archive's file, as `cache restore --sha256` takes it."""
    signature: str = ""
    """The file it is in; empty without a key to sign with."""
    filled_by: str = ""
    """The venv that is taken to have filled the caches, on the word of who saves unless it was proven."""
    proven_at: str = ""
    """When a warm-up proved that these files serve it; empty for no proof."""


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
    left_in: str
    """Where the former ones of these still are; empty where there are none."""


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
    signer: str = ""
    """Whose signature it has; empty when none was asked for."""


@frozen
class Exported:
    """A file that torch can load."""

    file: str
    bytes: int
    folder: str
    entries: Mapping[str, int]
    """Kind of entry -> number."""


def save(
    workspace: Workspace, name: str, include: Sequence[str], dialog: Dialog, *, live: bool, force: bool, key: str = ""
) -> Result:
    """Write the caches of the target venv into one archive, signed with an ssh `key`. Raises UsageError, CacheError."""
    refuse_unknown_kinds(include)
    asked = subject(workspace, dialog.note)
    path = asked.store.archive(name)
    if path.exists() and not force:
        raise UsageError(f"{path} exists", "choose another name, or replace it with `--force`")
    taken = asked.roots((*PORTABLE, *include))
    _refuse_strangers(asked, taken)
    purpose = Purpose(
        name=checked(name),
        profile=asked.profile.name if asked.profile else "",
        profile_digest=asked.profile_digest,
    )
    manifest = snapshot.describe(taken, asked.key(live=live), purpose)
    proof = proof_of(manifest, known_manifests(asked))
    if proof:
        manifest = replace(manifest, proven=True, cold_seconds=proof.cold_seconds)
    if not graph_files(manifest):
        where = ", ".join(str(root.path) for root in taken)
        raise UsageError(f"there is no compiled graph to save in {where}", warm_hint(workspace))
    for left in manifest.left_out:
        dialog.note(f"warning: left out, damaged: {left}")
    digest = snapshot.save(path, manifest)
    signature = sign(path, key, asked.host.environ) if key else None
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
        sha256=_sha256(path),
        signature=str(signature or ""),
        filled_by=str(asked.reading.target.prefix),
        proven_at=proof.made_at if proof else "",
    )
    return Result(command="cache save", data=data)


def _refuse_strangers(asked: CacheSubject, taken: Sequence[Root]) -> None:
    """Refuse to save what somebody else can have put there: the snapshot would pass it on as this user's."""
    caches = asked.reading.fact(CompileCaches)
    trusted = trusted_with(asked.reading.target.prefix, asked.host.uid)
    for root in taken:
        cache = caches.of(root.kind)
        if stranger := (cache.others if cache else "") or others_file(files([root]), root.kind, trusted):
            raise CacheError(
                f"{root.path} {stranger}, who can have put any code there; no snapshot was written",
                "save a cache of your own: export TORCHINDUCTOR_CACHE_DIR or TRITON_CACHE_DIR",
            )


def _sha256(path: Path) -> str:
    with open_regular(path) as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def undo(workspace: Workspace, stamp: str = "") -> Result:
    """Put back what the clean-up of that stamp took, or the last one, if any. Raises UsageError, CacheError.

    One of which the cache has every file again is the last one only where there is no other.
    """
    found = quarantine.listed(roots(workspace.with_variables().host))
    last = next((item for item in found if item.has_missing), found[0] if found else None)
    wanted = stamp or (last.stamp if last else "")
    chosen = [item for item in found if item.stamp == wanted]
    if stamp and not chosen:
        raise UsageError(
            f"no clean-up has the stamp {stamp}", "`envdoctor cache gc --purge --dry-run` lists what there is"
        )
    done = []
    for item in chosen:
        back, present = quarantine.put_back(item)
        done.append(
            PutBack(
                root=item.root,
                origin=str(item.origin),
                files=back,
                bytes=item.bytes,
                present=present,
                left_in=str(item.folder) if present else "",
            )
        )
    return Result(command="cache undo", data=Undone(stamp=wanted, roots=tuple(done)))


def import_(workspace: Workspace, file: str, vouching: Vouching, dialog: Dialog) -> Result:
    """Merge a file of torch.compiler.save_cache_artifacts(). Raises UsageError, CacheError."""
    host = workspace.with_variables().host
    inductor = next(root.path for root in roots(host) if root.kind == "inductor")
    path = Path(host.cwd, file)
    wanted = vouched_as(vouching, host.environ, host.cwd)
    try:
        with open_regular(path) as raw:
            # Before a byte of it is read: a sparse file may have terabytes.
            if os.fstat(raw.fileno()).st_size > _MAXIMUM_BLOB:
                raise UsageError(f"{file} is larger than {_MAXIMUM_BLOB >> 30} GB", "load it with torch itself")
            found = vouched(raw, path, wanted, host.environ)
            content = raw.read(_MAXIMUM_BLOB)
    except OSError as error:
        raise UsageError(
            f"cannot read {file}: {error.strerror}", "name the file torch's cache was written to"
        ) from error
    if not (found.sha256 or found.signer):
        dialog.note(UNVOUCHED.format(path=path))
    outcomes = blob.merge(blob.read(content, file), inductor)
    return Result(
        command="cache import",
        data=Imported(file=file, folder=str(inductor), outcomes=dict(outcomes), signer=found.signer),
    )


def export(workspace: Workspace, file: str) -> Result:
    """Write the graphs as one file for torch.compiler.load_cache_artifacts(). Raises UsageError."""
    host = workspace.with_variables().host
    root = next(root for root in roots(host) if root.kind == "inductor")
    target = Path(host.cwd, file)
    temporary = beside(target)
    try:
        with os.fdopen(create(temporary, 0o644), "wb") as out:
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
