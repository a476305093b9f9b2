"""`envdoctor cache save`: one archive of the caches, with a manifest of what they are for."""

from typing import Annotated

import typer

from envdoctor.app.caches import subject
from envdoctor.cache import snapshot
from envdoctor.cache.manifest import graph_files
from envdoctor.cache.snapshot import Purpose
from envdoctor.cache.store import checked, label
from envdoctor.catalog.cache_kinds import NAMES, PORTABLE
from envdoctor.cli.cache_options import LiveOption
from envdoctor.cli.options import ProfileOption, VenvOption
from envdoctor.cli.terminal import say, write_result
from envdoctor.doctor.workspace import Workspace
from envdoctor.errors import UsageError
from envdoctor.exitcodes import ExitCode
from envdoctor.report.cache_text import entries, megabytes


def save(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the snapshot.")],
    venv: VenvOption = "",
    profile: ProfileOption = "",
    live: LiveOption = False,
    include: Annotated[
        list[str],
        typer.Option(
            "--include",
            metavar="KIND",
            help=f"Take this cache too: {', '.join(name for name in NAMES if name not in PORTABLE)}. Can be repeated.",
        ),
    ] = [],  # noqa: B006 - typer reads the default and never shares it
    force: Annotated[bool, typer.Option("--force", help="Replace a snapshot of that name.")] = False,
) -> int:
    """Write the inductor and Triton caches of a venv into one archive with a readable manifest.

    Save right after a run of this environment: the manifest says that this environment filled the cache.
    """
    if unknown := sorted(set(include) - set(NAMES)):
        raise UsageError(f"`{unknown[0]}` is no kind of cache", f"known: {', '.join(NAMES)}")
    asked = subject(Workspace.open(venv, profile), say)
    path = asked.store.archive(name)
    if path.exists() and not force:
        raise UsageError(f"{path} exists", "choose another name, or replace it with `--force`")
    roots = asked.roots((*PORTABLE, *include))
    purpose = Purpose(
        name=checked(name),
        profile=asked.profile.name if asked.profile else "",
        profile_digest=asked.profile_digest,
    )
    manifest = snapshot.describe(roots, asked.key(live=live), purpose)
    if not graph_files(manifest):
        where = ", ".join(str(root.path) for root in roots)
        raise UsageError(
            f"there is no compiled graph to save in {where}", "fill it first: `envdoctor cache warm --profile P`"
        )
    for left in manifest.left_out:
        say(f"warning: left out, damaged: {left}")
    digest = snapshot.save(path, manifest)
    label(asked.inductor, manifest)
    size = path.stat().st_size
    write_result(
        f"Saved {name}: {len(manifest.files)} files, {megabytes(manifest.bytes)}, {entries(manifest.entries)}\n"
        f"{path} ({megabytes(size)})\n"
        f"key {manifest.key_digest}, digest {digest}\n"
    )
    return ExitCode.OK
