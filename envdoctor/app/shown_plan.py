"""A digest of a plan that was shown, and of what it was made on: what is carried out later is that plan, or nothing.

Who agrees to a plan without a terminal (a script, an agent) gives the digest back with `--plan`. The plan is made
again then; where anything differs, nothing is changed and the new plan is shown.
"""

import hashlib
import json
import os
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from envdoctor.documents.profile_store import ProfileRef
from envdoctor.errors import RestoreError, UsageError
from envdoctor.model.codec import encode
from envdoctor.swap import journal
from envdoctor.swap.seen import SeenVenv
from envdoctor.swap.store import BackupStore

_DIGITS = 20
"""Hex digits of each half: 80 bits."""
# What a plan states that changes by itself, and changes nothing of what is done: free room, sizes that a source tells
# or not, how many files a process maps, whether uv's cache has got a wheel meanwhile whose hash is locked (another node
# that shares the cache may have filled it), and the variables of this process (the port of its ssh connection is one),
# of which those that decide anything are in what was made of them: indexes, folders of links, proxies.
_BY_THEMSELVES = frozenset(
    (
        "rooms",
        "bytes",
        "unpacked_bytes",
        "mapped",
        "command",
        "kept_at",
        "seconds",
        "cached",
        "filename",
        "environment",
    )
)


class StateOnDisk:
    """What some venvs, and a profile with its lock, hold at one moment."""

    def __init__(self, venvs: Iterable[SeenVenv], profile: ProfileRef | None = None) -> None:
        """Take the venvs as they were seen, and the profile and its lock as they were read.

        Of a profile its place and its contents count: the same profile that a node is sent twice is the same.
        """
        seen = hashlib.sha256()
        for venv in venvs:
            for piece in venv.pieces():
                seen.update(piece)
        if profile is not None:
            seen.update(b"\0profile\0" + os.fsencode(profile.path) + b"\0" + profile.digest.encode())
        self.digest = seen.hexdigest()[:_DIGITS]


def digest_of(command: str, plan: Any, state: StateOnDisk) -> str:
    """Return "PLAN-STATE", 20 hex digits each, for the plan of a command as plain values or frozen dataclasses.

    Its halves tell apart that something else would be done from that something else is there.
    """
    text = json.dumps([command, _lasting(encode(plan))], sort_keys=True, default=str)
    return f"{hashlib.sha256(text.encode('utf-8', 'surrogateescape')).hexdigest()[:_DIGITS]}-{state.digest}"


def why_refused(shown: str, now: str) -> str:
    """Return why a plan is not carried out whose digest was given; empty where it is the same."""
    if shown == now:
        return ""
    said = "the plan is not the one that was shown"
    (plan, _, there), (plan_now, _, there_now) = shown.partition("-"), now.partition("-")
    if plan == plan_now:
        said = "the files are not those that the plan was made on, though it is the same"
    elif there == there_now:
        said = "the files are the same, but the plan is not the one that was shown"
    return f"nothing was changed: {said} (digest {shown}, now {now})"


def refuse_both(plan: str, *, dry_run: bool, yes: bool = False) -> None:
    """Raise UsageError for a digest beside an option that says something else."""
    if plan and (dry_run or yes):
        raise UsageError(
            f"--plan and {'--dry-run' if dry_run else '--yes'} are given",
            "give one of them: `--dry-run --json` shows a plan with its digest, `--plan DIGEST` carries it out",
        )


def refuse_unfinished(store: BackupStore) -> None:
    """Raise RestoreError where a command was interrupted: putting that right first was not shown."""
    if pending := journal.read(store):
        raise RestoreError(
            f"an interrupted {pending} has to be put right first, which the plan does not say",
            f"`envdoctor history --venv {shlex.quote(str(store.target))}` shows it; any of restore, repair, "
            "rollback and prune without --plan puts it right before it plans",
        )


def _lasting(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _lasting(item) for key, item in value.items() if key not in _BY_THEMSELVES}
    return [_lasting(item) for item in value] if isinstance(value, list | tuple) else value
