"""The gate log: one line for each start that the gate did not decide."""

import datetime as dt
import getpass
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

from envdoctor.facts.whole_file import appending
from envdoctor.model.codec import encode
from envdoctor.model.frozen import frozen
from envdoctor.standards.redaction import redacted, redacted_words, secrets_of

LOG = Path(".envdoctor/gate.log")


@frozen
class Bypass:
    """One start that the gate did not decide, as a line of the gate log keeps it."""

    at: str
    """UTC, ISO 8601, seconds."""
    profile: str
    mode: str
    reason: str
    found: tuple[str, ...]
    """Codes of the findings that were let through; empty in mode "off", which looks at nothing."""
    user: str
    prefix: str
    command: tuple[str, ...]


def record(
    profile: str, mode: str, reason: str, found: tuple[str, ...], prefix: str, say: Callable[[str], None]
) -> None:
    """Say a bypass and append it to the gate log; `found` are the codes of the findings let through.

    A log that cannot be written is said and stops nothing.
    """
    secrets = secrets_of(os.environ)
    codes = ", ".join(sorted(set(found)))
    passed = f"; findings let through: {codes}" if codes else ""
    say(f"warning: envdoctor gate: mode {mode} for profile {profile}, because: {reason}{passed}")
    bypass = Bypass(
        at=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        profile=profile,
        mode=mode,
        reason=redacted(reason, secrets),
        found=tuple(sorted(set(found))),
        user=_user(),
        prefix=prefix,
        command=redacted_words(sys.orig_argv, secrets),
    )
    log = Path(os.environ.get("ENVDOCTOR_GATE_LOG") or LOG)
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        # A pipe that nobody reads must not hold the launch; a link in the current folder is followed nowhere, and what
        # has a second name is not written to under this one.
        named = os.environ.get("ENVDOCTOR_GATE_LOG")
        with open(log, "ab", opener=_at_once) if named else appending(log, 0o600) as file:
            # One write of one line: ranks of several nodes may share the folder.
            file.write(json.dumps(encode(bypass)).encode() + b"\n")
    except OSError as error:
        say(f"warning: envdoctor gate: cannot write {log}: {error.strerror}; this bypass is recorded here only")


def _at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK, 0o600)


def _user() -> str:
    # A container's uid may have no passwd entry, and so no name.
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
