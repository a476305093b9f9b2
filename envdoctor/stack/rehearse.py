"""A restore without its last step: build the copy, verify and examine it, discard it. Goes as far as can be gone."""

import time
from datetime import UTC, datetime

from envdoctor.model.events import Event, Listener
from envdoctor.model.frozen import frozen
from envdoctor.stack.build import build
from envdoctor.stack.restore import PreparedRestore
from envdoctor.stack.room import refuse_too_little
from envdoctor.stack.verify import Verified, refuse
from envdoctor.stack.verify_copy import failed_checks, known_contents, refuse_failed, verify_copy
from envdoctor.swap.store import remove_tree
from envdoctor.swap.transaction import opened, system_errors
from envdoctor.wheels import uv as uv_tool


@frozen
class Rehearsed:
    """What a restore would have swapped in."""

    verified: Verified
    examined: bool
    """False when packages are missing: without them the checks would only say so again."""
    seconds: float


def rehearse(prepared: PreparedRestore, listen: Listener) -> Rehearsed:
    """Build, verify and examine a copy of what was found, and remove it again; the venv is not touched.

    Raises RestoreError for what would have stopped a restore, but not for packages that were not found.
    """
    plan, store, host, request = prepared.plan, prepared.store, prepared.host, prepared.request
    refuse_too_little(plan)
    had = {package.name: prepared.locked[package.name] for package in plan.packages}
    started = time.monotonic()
    with opened(store, listen) as held, system_errors():
        folder = store.builds / f"{datetime.now(UTC).strftime('%Y%m%dT%H%M%S')}-rehearsal"
        store.builds.mkdir(exist_ok=True)
        try:
            uv = uv_tool.locate(host.environ, host.cwd, keep_open=(held.descriptor,))
            build(plan, had, prepared.sources, uv, folder, listen)
            known = known_contents(host, request.verify)
            verified, reading = verify_copy(folder, store.target, had, host, listen, known)
            refuse(verified, "the new venv")
            if not plan.unavailable:
                listen(Event(phase="check", text="examining the copy"))
                refuse_failed(failed_checks(reading, request.file.profile, request.lock, store.target))
        finally:
            remove_tree(folder)
    return Rehearsed(verified=verified, examined=not plan.unavailable, seconds=time.monotonic() - started)
