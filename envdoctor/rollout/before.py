"""Which venv each node had before a restore or a repair of a fleet: what `fleet rollback` goes back to.

One file a change, beside its journal of progress, readable by its user alone. It is written before the first node is
changed and stays when all are done.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path

from envdoctor.errors import UsageError
from envdoctor.facts.owned import read_of
from envdoctor.facts.whole_file import write_whole
from envdoctor.model.codec import CodecError, decode, encode
from envdoctor.model.frozen import frozen, replace
from envdoctor.standards.bounded_json import loads

_MAXIMUM = 16 << 20
_SUFFIX = ".before.json"


@frozen
class NodeBefore:
    """One node before the change."""

    venv: str
    """Path on the node."""
    made: str
    """The venv that was there, as `swap/same_venv.py` tells it apart; empty for none."""


@frozen
class Before:
    """What all nodes of a change had before it."""

    kind: str
    profile: str
    """As it was given; empty for a repair without one."""
    begun: str
    """UTC, to the microsecond."""
    fleet: tuple[str, ...]
    """How the nodes were reached: a name may be another machine's elsewhere."""
    nodes: Mapping[str, NodeBefore]

    @property
    def change(self) -> str:
        """Return which change that was, for a person."""
        of = f" of {self.profile}" if self.profile else ""
        return f"the fleet {self.kind}{of} that was begun at {self.begun[:19].replace('T', ' ')} UTC"


def write(journal: Path, before: Before, *, resumed: bool) -> None:
    """Note it beside the journal of a change. Raises UsageError where it cannot be written.

    resumed: the change goes on, and of nodes that it had noted already that is what they had before all of it.
    """
    path = journal.with_suffix(_SUFFIX)
    if resumed and path.exists():
        first = _read(path)
        before = replace(first, nodes={**before.nodes, **first.nodes})
    try:
        write_whole(path, json.dumps(encode(before)).encode(), 0o600)
    except OSError as error:
        hint = "name a folder that you can write: `export XDG_DATA_HOME=FOLDER`"
        raise UsageError(f"{path} cannot be written: {error.strerror or error}", hint) from error


def newest(folder: Path, fleet: tuple[str, ...], venvs: Mapping[str, str]) -> Before | None:
    """Return the last change of any of these nodes' venvs. Raises UsageError where what was noted cannot be read."""
    found = [_read(path) for path in sorted(folder.glob(f"*{_SUFFIX}"))]
    meant = [one for one in found if one.fleet == fleet and any(_is_of(one, *pair) for pair in venvs.items())]
    return max(meant, key=lambda one: one.begun, default=None)


def _is_of(before: Before, name: str, venv: str) -> bool:
    return name in before.nodes and before.nodes[name].venv == venv


def _read(path: Path) -> Before:
    try:
        noted: Before = decode(Before, loads(read_of(path, frozenset({os.geteuid()}), _MAXIMUM)))
    except (OSError, ValueError, CodecError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise UsageError(
            f"{path} is not read, which says what nodes had before a change: {why}",
            f"`rm {path}` forgets that change; `envdoctor rollback` on a node goes back there",
        ) from error
    return noted
