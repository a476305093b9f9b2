"""The journal of a venv: what its stack was and when, with a fingerprint of each different one.

It is kept per user and venv in `$XDG_DATA_HOME/envdoctor/stacks/NAME-DIGEST/`: `journal.jsonl`, one entry a line, and
the fingerprints, each of which `diff` takes as it is. A line that a crash cut short is left out when it is read.
"""

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import Any, Literal

from envdoctor.compare.sheet import sheet_of
from envdoctor.documents.fingerprint_file import document
from envdoctor.errors import UsageError
from envdoctor.facts.host import Host
from envdoctor.facts.owned import read_of
from envdoctor.facts.whole_file import write_whole
from envdoctor.model.codec import CodecError, decode, encode
from envdoctor.model.fingerprint import Fingerprint
from envdoctor.model.frozen import frozen
from envdoctor.standards.bounded_json import loads
from envdoctor.standards.redaction import redacted, secrets_of

KEPT = 2_000
"""Entries; of more than one and a half times as many the oldest go, but for the last good run."""
_MAXIMUM = 16 << 20
_LISTED = 40


@frozen
class StackEntry:
    """The stack of a venv at one moment."""

    at: str
    """UTC, ISO 8601, seconds."""
    kind: Literal["seen", "good"]
    """"good": a run on it reached what its profile expects."""
    digest: str
    """Of the stack; empty where a part of it could not be read."""
    fingerprint: str
    """File name of the fingerprint, beside the journal."""
    changed: tuple[str, ...] = ()
    """What differs from the entry before, as `diff` says it; at most 40."""
    profile: str = ""
    tokens_per_second: float = 0.0
    """Of a good run."""


@frozen
class StackJournal:
    """The journal of one venv."""

    folder: Path
    prefix: str

    @classmethod
    def of(cls, prefix: Path, host: Host) -> "StackJournal":
        """Return the journal of the venv at `prefix`, which need not have been begun."""
        real = Path(os.path.realpath(prefix.parent)) / prefix.name
        data = host.environ.get("XDG_DATA_HOME", "")
        base = Path(data) if data.startswith("/") else host.home / ".local/share"
        name = f"{real.name.lstrip('.') or 'venv'}-{hashlib.sha256(os.fsencode(real)).hexdigest()[:12]}"
        return cls(folder=base / "envdoctor/stacks" / name, prefix=str(real))

    @property
    def path(self) -> Path:
        """The journal's file."""
        return self.folder / "journal.jsonl"

    def entries(self) -> tuple[StackEntry, ...]:
        """Return the entries, the oldest first; none without a journal. Raises UsageError for another user's."""
        try:
            content = read_of(self.path, frozenset({os.geteuid()}), _MAXIMUM)
        except FileNotFoundError:
            return ()
        except OSError as error:
            hint = f"move it away, and a new journal is begun: `mv {quote(str(self.path))} {quote(f'{self.path}.old')}`"
            raise UsageError(f"{self.path} is not read: {error.strerror or error}", hint) from error
        return tuple(_entries(content))

    def add(self, entry: StackEntry, facts: Fingerprint) -> None:
        """Append an entry, and keep its fingerprint where none of that stack is kept. Raises UsageError."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            kept = self.folder / entry.fingerprint
            if not kept.exists():
                write_whole(kept, _shown(document(facts)), 0o600)
            with self._locked() as descriptor:
                line = _shown(encode(entry))
                size = os.fstat(descriptor).st_size
                # Behind a line that a crash cut short, on a line of its own.
                torn = bool(size) and os.pread(descriptor, 1, size - 1) != b"\n"
                os.write(descriptor, (b"\n" if torn else b"") + line + b"\n")
                os.fsync(descriptor)
                self._bound()
        except OSError as error:
            hint = "name a folder that you can write: `export XDG_DATA_HOME=FOLDER`"
            raise UsageError(f"{self.folder} cannot be written: {error.strerror or error}", hint) from error

    @contextlib.contextmanager
    def _locked(self) -> Iterator[int]:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        while True:
            descriptor = os.open(self.path, flags, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                # It may have been replaced by a shorter one while this waited.
                if os.fstat(descriptor).st_ino == self.path.stat().st_ino:
                    yield descriptor
                    return
            finally:
                os.close(descriptor)

    def _bound(self) -> None:
        known = self.entries()
        if len(known) <= KEPT * 3 // 2:
            return
        good = next((one for one in reversed(known) if one.kind == "good"), None)
        kept = known[-KEPT:]
        if good is not None and good not in kept:
            kept = (good, *kept)
        write_whole(self.path, b"".join(json.dumps(encode(one)).encode() + b"\n" for one in kept), 0o600)
        named = {one.fingerprint for one in kept}
        for path in self.folder.glob("*.json"):
            if path.name not in named:
                path.unlink(missing_ok=True)


def entry_of(
    facts: Fingerprint, kind: Literal["seen", "good"], changed: tuple[str, ...] = (), *, profile: str, rate: float = 0.0
) -> StackEntry:
    """Return the entry of a fingerprint that was taken with `Options(contents=True)`; rate: tokens a second."""
    sheet = sheet_of(facts, per_rank=True)
    name = hashlib.sha256(json.dumps(encode(sheet), sort_keys=True).encode("utf-8", "surrogateescape")).hexdigest()[:24]
    shown = (*changed[:_LISTED], f"and {len(changed) - _LISTED} more") if len(changed) > _LISTED else changed
    return StackEntry(
        at=facts.taken_at,
        kind=kind,
        digest=sheet.facts.get("stack", ""),
        fingerprint=f"{name}.json",
        changed=shown,
        profile=profile,
        tokens_per_second=rate,
    )


def _entries(content: bytes) -> Iterator[StackEntry]:
    for line in content.splitlines():
        try:
            entry: StackEntry = decode(StackEntry, loads(line))
        except (ValueError, CodecError):
            continue
        if "/" not in entry.fingerprint and entry.fingerprint.endswith(".json"):
            yield entry


def _shown(value: Any) -> bytes:
    """Return JSON without secrets: a journal is kept, and read by others."""
    return redacted(json.dumps(value), secrets_of(os.environ)).encode()
