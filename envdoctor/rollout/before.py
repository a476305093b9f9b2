"""Which venv each node had before a restore or a repair of a fleet: what `fleet rollback` goes back to.

One file a command, beside its journal of progress, readable by its user alone. It is written before the first node is
changed, and again when nodes are changed: a node that the change left as it was keeps what was noted of it earlier.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from shlex import quote

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
    became: str = ""
    """The venv that is there after it; empty where that is not known."""
    earlier: str = ""
    """Of the same change once more: what was noted before it, of a node that still has what it became then."""


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
    last: str = ""
    """When it went on for the last time, as `begun`; empty where it did not."""

    @property
    def change(self) -> str:
        """Return which change that was, for a person."""
        of = f" of {self.profile}" if self.profile else ""
        return f"the fleet {self.kind}{of} that was begun at {self.begun[:19].replace('T', ' ')} UTC"


def write(journal: Path, before: Before, *, resumed: bool) -> None:
    """Note it beside the journal of a change. Raises UsageError where it cannot be written.

    resumed: the change goes on, and of nodes that it had noted already that is what they had before all of it; so it is
    of nodes that share a venv with one of those.
    """
    path = journal.with_suffix(_SUFFIX)
    first = _read(path) if path.exists() else None
    if first is not None and resumed:
        nodes = _of_the_first(first.nodes, before.nodes)
        before = replace(first, nodes={**nodes, **first.nodes}, last=before.begun)
    elif first is not None and first.fleet == before.fleet:
        before = replace(before, nodes={name: _once_more(first, name, one) for name, one in before.nodes.items()})
    _write(path, before)


def became(journal: Path, venvs: Mapping[str, str]) -> None:
    """Note what nodes have after they were visited. Raises UsageError. venvs: node -> venv, empty for not known."""
    path = journal.with_suffix(_SUFFIX)
    before = _read(path)
    nodes = {name: _after(before.nodes[name], venv) for name, venv in venvs.items() if venv and name in before.nodes}
    if nodes:
        _write(path, replace(before, nodes={**before.nodes, **nodes}))


def _of_the_first(first: Mapping[str, NodeBefore], now: Mapping[str, NodeBefore]) -> Mapping[str, NodeBefore]:
    """Return the nodes as they are now, but of a venv that the change itself has made what was there before that."""
    made = {venv: one.made for name, one in first.items() for venv in (one.became, _made(now, name)) if venv}
    return {name: replace(one, made=made.get(one.made, one.made)) for name, one in now.items()}


def _made(nodes: Mapping[str, NodeBefore], name: str) -> str:
    return nodes[name].made if name in nodes else ""


def _once_more(first: Before, name: str, now: NodeBefore) -> NodeBefore:
    had = first.nodes.get(name)
    still = had is not None and had.venv == now.venv and had.became == now.made != ""
    return replace(now, earlier=had.made) if had is not None and still else now


def _after(node: NodeBefore, venv: str) -> NodeBefore:
    if node.earlier and venv == node.made:  # nothing was exchanged
        return replace(node, made=node.earlier, became=venv, earlier="")
    return replace(node, became=venv)


def _write(path: Path, before: Before) -> None:
    try:
        write_whole(path, json.dumps(encode(before)).encode(), 0o600)
    except OSError as error:
        hint = "name a folder that you can write: `export XDG_DATA_HOME=FOLDER`"
        raise UsageError(f"{path} cannot be written: {error.strerror or error}", hint) from error


def newest(folder: Path, fleet: tuple[str, ...], venvs: Mapping[str, str]) -> Before | None:
    """Return the last change of any of these nodes' venvs. Raises UsageError where what was noted cannot be read."""
    found = [_read(path) for path in sorted(folder.glob(f"*{_SUFFIX}"))]
    meant = [one for one in found if one.fleet == fleet and any(_is_of(one, *pair) for pair in venvs.items())]
    return max(meant, key=lambda one: one.last or one.begun, default=None)


def _is_of(before: Before, name: str, venv: str) -> bool:
    return name in before.nodes and before.nodes[name].venv == venv


def _read(path: Path) -> Before:
    try:
        noted: Before = decode(Before, loads(read_of(path, frozenset({os.geteuid()}), _MAXIMUM)))
    except (OSError, ValueError, CodecError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise UsageError(
            f"{path} is not read, which says what nodes had before a change: {why}",
            f"`rm {quote(str(path))}` forgets that change; `rollback` on a node goes back there",
        ) from error
    return noted
