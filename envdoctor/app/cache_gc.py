"""Freeing space in the compile caches: never what a profile keeps or a process uses; shown first, undone by `undo`."""

import os
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal

from envdoctor.app.caches import CacheSubject, known_manifests, subject
from envdoctor.app.result import Dialog, Result
from envdoctor.cache import gc as cleaning
from envdoctor.cache import in_use, quarantine
from envdoctor.cache.gc import CleanupPlan, Wish
from envdoctor.cache.in_use import CacheUser
from envdoctor.cache.key_parts import digest
from envdoctor.cache.layout import Root, files, install_order
from envdoctor.cache.quarantine import Quarantine
from envdoctor.cache.status import damaged_entries
from envdoctor.catalog.cache_kinds import NAMES
from envdoctor.doctor.workspace import Workspace
from envdoctor.documents import profile_store
from envdoctor.errors import UsageError
from envdoctor.exitcodes import ExitCode
from envdoctor.model.frozen import frozen, replace
from envdoctor.model.wording import size


@frozen
class CleanupOptions:
    """How the clean-up is wanted."""

    entries: Wish
    keep_for: tuple[str, ...] = ()
    """Profiles whose entries stay, beside every profile that can be named here."""
    purge: bool = False
    """Delete what earlier clean-ups took, for good."""
    dry_run: bool = False
    yes: bool = False


@frozen
class Cleaned:
    """A clean-up: the plan of it, or what became of it."""

    status: Literal["planned", "cleaned"]
    plan: CleanupPlan
    old: tuple[Quarantine, ...]
    """Earlier clean-ups that are purged."""
    users: tuple[CacheUser, ...]
    """Processes that use a cache which holds files: its entries stay."""
    not_seen: tuple[str, ...]
    """Which processes may use a cache that holds files, without being known to."""
    taken: tuple[Quarantine, ...] = ()
    """What this one took, by root."""


def gc(workspace: Workspace, wishes: CleanupOptions, dialog: Dialog) -> Result:
    """Take entries out of the caches of the target venv. Raises UsageError, CacheError."""
    if wishes.entries == Wish() and not wishes.purge:
        raise UsageError(
            "nothing was asked for", "`--older-than DAYS`, `--max-size MB`, `--damaged`, `--other-keys` or `--purge`"
        )
    asked = subject(workspace, dialog.note)
    roots = asked.roots(NAMES)
    users = in_use.users(roots, asked.host, os.getpid())
    held = {file.root for file in files(roots)}
    planned = Cleaned(
        status="planned",
        plan=_plan(asked, roots, wishes, users),
        old=tuple(quarantine.listed(roots)) if wishes.purge else (),
        users=tuple(user for user in users if user.root in held),
        not_seen=in_use.not_seen([root for root in roots if root.kind in held], asked.host),
    )
    if wishes.dry_run or not (planned.plan.removals or planned.old):
        return Result(command="cache gc", data=planned)
    dialog.show(Result(command="cache gc", data=planned))
    if not wishes.yes and not dialog.agreed(_question(planned)):
        dialog.note("nothing was removed")
        return Result(command="cache gc", data=None, exit_code=ExitCode.INTERRUPTED)
    for found in planned.old:
        quarantine.purge(found)
    # A job may have started while the question stood.
    users = in_use.users(roots, asked.host, os.getpid())
    plan = cleaning.spare(planned.plan, {user.root for user in users})
    if stay := len(planned.plan.removals) - len(plan.removals):
        dialog.note(f"{'1 entry stays' if stay == 1 else f'{stay} entries stay'}: a process uses the cache by now")
    done = replace(planned, status="cleaned", plan=plan, users=tuple(user for user in users if user.root in held))
    return Result(command="cache gc", data=replace(done, taken=_take(plan, roots)))


def _plan(
    asked: CacheSubject, roots: Sequence[Root], wishes: CleanupOptions, users: Sequence[CacheUser]
) -> CleanupPlan:
    found, wish = list(files(roots)), wishes.entries
    known = known_manifests(asked)
    key = asked.key() if wish.other_keys or wish.damaged else ()
    facts = cleaning.Facts(
        files=found,
        damaged=damaged_entries(roots, found, known, key) if wish.damaged else (),
        manifests=[*known, *asked.store.warm_manifests()],
        key=digest(key) if wish.other_keys else "",
        keep_for=frozenset({*wishes.keep_for, *profile_store.names(asked.host.cwd)}),
        used_roots=frozenset(user.root for user in users),
        now=time.time(),
    )
    return cleaning.plan(facts, wish)


def _take(plan: CleanupPlan, roots: Sequence[Root]) -> tuple[Quarantine, ...]:
    now, made = datetime.now(UTC), []
    for root in roots:
        removals = [removal for removal in plan.removals if removal.root == root.kind]
        wanted = {path for removal in removals for path in removal.files}
        # Graphs first: whoever reads meanwhile must not find a graph whose kernels are gone.
        ordered = [file.path for file in reversed(install_order(files([root]))) if file.path in wanted]
        reasons = ", ".join(sorted({removal.reason for removal in removals}))
        if ordered and (done := quarantine.take(root, ordered, reasons, now)):
            made.append(done)
    return tuple(made)


def _question(planned: Cleaned) -> str:
    old, plan = planned.old, planned.plan
    deleted = f"delete {size(sum(found.bytes for found in old))} of earlier clean-ups for good" if old else ""
    entries = "1 entry" if len(plan.removals) == 1 else f"{len(plan.removals)} entries"
    moved = f"take {entries} ({size(plan.bytes)}) out" if plan.removals else ""
    return " and ".join(filter(None, (deleted, moved))).capitalize() + "?"
