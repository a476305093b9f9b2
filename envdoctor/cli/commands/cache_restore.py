"""`envdoctor cache restore`: merge a snapshot into the caches of a venv."""

from collections.abc import Sequence
from typing import Annotated

import typer

from envdoctor.app.caches import Subject, subject
from envdoctor.cache import key_parts, relocate
from envdoctor.cache.archive import reading
from envdoctor.cache.compatibility import objections, remarks
from envdoctor.cache.key_parts import Comparison, Part
from envdoctor.cache.manifest import Manifest, fingerprint
from envdoctor.cache.restore import restore as merge
from envdoctor.cache.store import label
from envdoctor.cli.cache_options import LiveOption
from envdoctor.cli.options import DryRunOption, ProfileOption, VenvOption
from envdoctor.cli.terminal import say, write_result
from envdoctor.doctor.workspace import Workspace
from envdoctor.errors import CacheError
from envdoctor.exitcodes import ExitCode
from envdoctor.report.cache_text import entries, megabytes, merged_text


def restore(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A snapshot's name, or the path of its archive.")],
    venv: VenvOption = "",
    profile: ProfileOption = "",
    live: LiveOption = False,
    force: Annotated[
        bool, typer.Option("--force", help="Restore a snapshot of another machine or stack all the same.")
    ] = False,
    dry_run: DryRunOption = False,
) -> int:
    """Merge a snapshot into a venv's caches: all of it is verified first, and no newer entry is overwritten.

    A snapshot is code that torch will run: restore only what you or somebody you trust has made. Exit codes:
    0 restored, 1 refused (another machine's, damaged or forged), 2 bad input.
    """
    asked = subject(Workspace.open(venv, profile), say)
    path = asked.store.find(name, asked.host.cwd)
    with reading(path) as reader:
        manifest, text = reader.manifest()
        _require_wanted(asked, manifest, fingerprint(text))
        key = asked.key(live=live)
        _refuse_or_say(path.name, key_parts.compare(manifest.key, key), manifest, force=force)
        if dry_run:
            write_result(
                f"Would merge {manifest.name}: {len(manifest.files)} files, {megabytes(manifest.bytes)}, "
                f"{entries(manifest.entries)}\n"
            )
            return ExitCode.OK
        folders = {root.kind: root.path for root in asked.roots(tuple(manifest.folders))}
        merged = merge(reader, manifest, folders)
    write_result(merged_text(manifest, merged))
    label(asked.inductor, _for_this_venv(asked, merged.manifest, key, live=live))
    return ExitCode.OK


def _for_this_venv(asked: Subject, manifest: Manifest, key: Sequence[Part], *, live: bool) -> Manifest:
    """Give C++ kernels of a venv at another path this venv's names, or say that they will be compiled again."""
    kernels = relocate.needed(manifest, key)
    if not kernels:
        return manifest
    if not live:
        say(
            f"warning: the names of {kernels} C++ kernels hold the path of the venv they were made for; they will be "
            "compiled again\n\nhint: `--live` asks this venv's torch for its names"
        )
        return manifest
    done = relocate.relocate(manifest, asked.inductor, key, asked.python, asked.host.environ, asked.host.cwd)
    write_result(f"{done.renamed} of {done.kernels} C++ kernels have a name for this venv's path now\n")
    return done.manifest


def _require_wanted(asked: Subject, manifest: Manifest, digest: str) -> None:
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


def _refuse_or_say(name: str, comparison: Comparison, manifest: Manifest, *, force: bool) -> None:
    against = objections(comparison, manifest.entries)
    if against and not force:
        reasons = "\n".join(f"  - {reason}" for reason in against)
        raise CacheError(
            f"{name} was made for another machine or stack; nothing was taken from it:\n{reasons}",
            "restore that stack first, or add `--force` to merge entries that will not hit here",
        )
    for remark in (*against, *remarks(comparison)):
        say(f"warning: {remark}")
