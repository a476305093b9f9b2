"""`envdoctor cache gc`: free space, never of what a profile keeps; shown first, and undone by `cache undo`."""

import os
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

import typer

from envdoctor.app.caches import Subject, known_manifests, subject
from envdoctor.cache import gc as cleaning
from envdoctor.cache import in_use, quarantine
from envdoctor.cache.gc import Plan, Wish
from envdoctor.cache.in_use import User
from envdoctor.cache.key_parts import digest
from envdoctor.cache.layout import Root, files, install_order
from envdoctor.cache.quarantine import Quarantine
from envdoctor.cache.status import damaged_entries
from envdoctor.catalog.cache_kinds import NAMES
from envdoctor.cli.cache_options import confirm
from envdoctor.cli.options import DryRunOption, ProfileOption, VenvArgument, VenvOption, YesOption
from envdoctor.cli.terminal import say, write_result
from envdoctor.cli.values import one_venv
from envdoctor.doctor.workspace import Workspace
from envdoctor.documents import profile_store
from envdoctor.errors import UsageError
from envdoctor.exitcodes import ExitCode
from envdoctor.report.cache_text import megabytes

_DAY = 86_400
_MOST_SHOWN = 20


def gc(
    venv: VenvArgument = "",
    venv_option: VenvOption = "",
    profile: ProfileOption = "",
    keep_for: Annotated[
        list[str],
        typer.Option(
            "--keep-for",
            metavar="P",
            help="Keep this profile's entries, beside those of every known profile. Can be repeated.",
        ),
    ] = [],  # noqa: B006 - typer reads the default and never shares it
    older_than: Annotated[
        float, typer.Option("--older-than", metavar="DAYS", help="Take entries written longer ago than this.")
    ] = -1.0,
    max_size: Annotated[
        float, typer.Option("--max-size", metavar="MB", help="Take the oldest entries until the rest fits.")
    ] = -1.0,
    damaged: Annotated[
        bool, typer.Option("--damaged", help="Take damaged entries, a profile's too: they cannot hit.")
    ] = False,
    other_keys: Annotated[
        bool, typer.Option("--other-keys", help="Take entries that belong to another torch, GPU or configuration.")
    ] = False,
    purge: Annotated[bool, typer.Option("--purge", help="Delete what earlier clean-ups took, for good.")] = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> int:
    """Free space in a venv's caches. What goes is shown first, and lies in quarantine until `--purge`.

    Entries of a profile's newest manifest stay, and so does a cache that a live process uses.
    """
    wish = Wish(
        older_than_seconds=older_than * _DAY if older_than >= 0 else None,
        maximum_bytes=int(max_size * 1e6) if max_size >= 0 else None,
        damaged=damaged,
        other_keys=other_keys,
    )
    if wish == Wish() and not purge:
        raise UsageError(
            "nothing was asked for", "`--older-than DAYS`, `--max-size MB`, `--damaged`, `--other-keys` or `--purge`"
        )
    asked = subject(Workspace.open(one_venv(venv, venv_option), profile), say)
    roots = asked.roots(NAMES)
    users = in_use.users(roots, asked.host, os.getpid())
    plan = _plan(asked, roots, wish, keep_for, users)
    old = quarantine.listed(roots) if purge else ()
    write_result(_shown(plan, old, users))
    if dry_run or not (plan.removals or old):
        return ExitCode.OK
    confirm(_question(plan, old), yes=yes)
    for found in old:
        quarantine.purge(found)
    _take(plan, roots)
    return ExitCode.OK


def _plan(asked: Subject, roots: Sequence[Root], wish: Wish, keep_for: Sequence[str], users: Sequence[User]) -> Plan:
    found = list(files(roots))
    known = profile_store.names(asked.host.cwd)
    facts = cleaning.Facts(
        files=found,
        damaged=damaged_entries(roots, found) if wish.damaged else (),
        manifests=[*known_manifests(asked), *asked.store.warm_manifests()],
        key=digest(asked.key()) if wish.other_keys else "",
        keep_for=frozenset({*keep_for, *known}),
        used_roots=frozenset(user.root for user in users),
        now=time.time(),
    )
    return cleaning.plan(facts, wish)


def _take(plan: Plan, roots: Sequence[Root]) -> None:
    now = datetime.now(UTC)
    for root in roots:
        taken = {path for removal in plan.removals if removal.root == root.kind for path in removal.files}
        # Graphs first: whoever reads meanwhile must not find a graph whose kernels are gone.
        ordered = [file.path for file in reversed(install_order(files([root]))) if file.path in taken]
        if ordered and (done := quarantine.take(root, ordered, _reasons(plan, root), now)):
            say(
                f"{len(done.files)} files, {megabytes(done.bytes)}, lie in {done.folder}\n\n"
                "hint: `envdoctor cache undo` puts them back"
            )


def _reasons(plan: Plan, root: Root) -> str:
    return ", ".join(sorted({removal.reason for removal in plan.removals if removal.root == root.kind}))


def _question(plan: Plan, old: Sequence[Quarantine]) -> str:
    deleted = f"Delete {megabytes(sum(found.bytes for found in old))} of earlier clean-ups for good" if old else ""
    moved = f"take {len(plan.removals)} entries ({megabytes(plan.bytes)}) out" if plan.removals else ""
    return " and ".join(filter(None, (deleted, moved))).capitalize() + "?"


def _shown(plan: Plan, old: Sequence[Quarantine], users: Sequence[User]) -> str:
    lines = [f"{len(plan.removals)} entries can go, {megabytes(plan.bytes)}"]
    lines += [
        f"  {removal.root}/{removal.entry} ({removal.kind}, {megabytes(removal.bytes)}): {removal.reason}"
        for removal in plan.removals[:_MOST_SHOWN]
    ]
    if len(plan.removals) > _MOST_SHOWN:
        lines.append(f"  and {len(plan.removals) - _MOST_SHOWN} more")
    lines += [f"{number} entries stay: {reason}" for reason, number in plan.kept.items()]
    lines += [f"{user.root} is used by process {user.pid}: {user.command}" for user in users]
    lines += [f"in quarantine since {found.stamp}: {len(found.files)} files, {megabytes(found.bytes)}" for found in old]
    return "\n".join(lines) + "\n"
