"""Which nodes a change has reached: a journal per command, fleet and profile, for a run that goes on after a stop.

It is in `$XDG_DATA_HOME/envdoctor/fleet/`, readable by its user alone, and gone once all nodes are done.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from shlex import quote

from envdoctor.errors import UsageError
from envdoctor.facts.host import Host
from envdoctor.facts.owned import read_of
from envdoctor.facts.whole_file import appending
from envdoctor.model.frozen import frozen
from envdoctor.standards.bounded_json import loads

_MAXIMUM = 16 << 20
_DONE = ("done", "errors left")


def folder_of(host: Host) -> Path:
    """Return the folder of the journals, which need not be there."""
    data = host.environ.get("XDG_DATA_HOME", "")
    base = Path(data) if data.startswith("/") else host.home / ".local/share"
    return base / "envdoctor/fleet"


@frozen
class Progress:
    """The journal of one change."""

    path: Path

    @classmethod
    def of(cls, host: Host, told: Sequence[str]) -> "Progress":
        """Return the journal of the change that these words tell apart from others."""
        name = hashlib.sha256(json.dumps(list(told)).encode("utf-8", "surrogateescape")).hexdigest()[:16]
        return cls(path=folder_of(host) / f"{name}.jsonl")

    def done(self) -> dict[str, str]:
        """Return the nodes that are done -> "done" or "errors left".

        Raises UsageError where there is no journal, or it is another user's.
        """
        try:
            content = read_of(self.path, frozenset({os.geteuid()}), _MAXIMUM)
        except FileNotFoundError as error:
            hint = "omit `--resume`: the change begins with the first node"
            raise UsageError("nothing was stopped here that this could go on with", hint) from error
        except OSError as error:
            raise UsageError(
                f"{self.path} is not read: {error.strerror or error}", f"`rm {quote(str(self.path))}`"
            ) from error
        return dict(filter(None, map(_node, content.splitlines())))

    def forget(self) -> None:
        """Forget what an earlier run has reached: what is noted until `begin` belongs to none that goes on."""
        with self._written():
            self.path.unlink(missing_ok=True)
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)

    def begin(self) -> None:
        """Begin with no node. Raises UsageError where it cannot be written."""
        with self._written():
            self.note("", "begun")

    @contextmanager
    def _written(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            hint = "name a folder that you can write: `export XDG_DATA_HOME=FOLDER`"
            raise UsageError(f"{self.path} cannot be written: {error.strerror or error}", hint) from error

    def note(self, node: str, state: str) -> None:
        """Append what became of a node; it is on the disk when this returns."""
        with appending(self.path, 0o600) as file:
            # Behind a line that a crash cut short, on a line of its own.
            file.write(b"\n" + json.dumps({"node": node, "state": state}).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def end(self) -> None:
        """Forget it: every node is done."""
        with suppress(OSError):  # then a run with `--resume` finds every node done
            self.path.unlink(missing_ok=True)


def _node(line: bytes) -> tuple[str, str] | None:
    try:
        told = loads(line)
        return (str(told["node"]), told["state"]) if told["state"] in _DONE else None
    except (ValueError, KeyError, TypeError):
        return None
