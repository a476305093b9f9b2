"""Which nodes see one venv, as the nodes of a cluster with a shared home do: it is changed once. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from envdoctor.model.frozen import replace
from envdoctor.rollout.view import ChangedNode, FleetChange

_NETWORK = "network"


def with_shared(view: FleetChange) -> FleetChange:
    """Return the same, where each planned node whose venv is an earlier one's too names that node.

    Two nodes that see the same inode share it where their file system is of a network, or where it is a local one and
    they are one machine. Local disks of two machines are copies of one image. Where one node is the server, whose own
    file system is local, it shares with the others.
    """
    shares = _sharing(view.planned)
    return view.with_nodes({one.name: replace(one, shares=shares.get(one.name, "")) for one in view.nodes})


def without_contrary(view: FleetChange, before: Mapping[str, str]) -> FleetChange:
    """Return the same, where no node goes back that shares its venv with one for which another venv of before is noted.

    before: node -> that venv. One of two such notes was made after the other node was changed, and names the new venv.
    """
    contrary: dict[str, ChangedNode] = {}
    nodes = {one.name: one for one in view.nodes if one.name in before}
    for name, first in _sharing(nodes.values()).items():
        if before[name] != before[first]:
            problem = (
                f"{first} and {name} share one venv, and what is noted here as their venv of before is not the same"
            )
            contrary |= {
                one: ChangedNode(name=one, step="could not plan", problem=f"{problem}; `envdoctor rollback` on {first}")
                for one in (first, name)
            }
    return view.with_nodes(contrary)


def ready(waiting: Sequence[ChangedNode], most: int) -> list[ChangedNode]:
    """Return the nodes that can be changed now, so many at most: none whose venv another one is yet to change."""
    names = {one.name for one in waiting}
    return [one for one in waiting if one.shares not in names][:most]


def sharers(nodes: Iterable[ChangedNode]) -> Mapping[str, tuple[str, ...]]:
    """Return node -> the ones that share its venv and are visited after it."""
    found: dict[str, tuple[str, ...]] = {}
    for node in nodes:
        if node.shares:
            found[node.shares] = (*found.get(node.shares, ()), node.name)
    return found


def _sharing(nodes: Iterable[ChangedNode]) -> Mapping[str, str]:
    places: dict[str, list[ChangedNode]] = {}
    for node in nodes:
        if node.place and node.seen_from:
            places.setdefault(node.place, []).append(node)
    return {name: first for alike in places.values() for name, first in _shares(alike)}


def _shares(alike: Sequence[ChangedNode]) -> Iterable[tuple[str, str]]:
    machines = {one.seen_from for one in alike} - {_NETWORK}
    one_server = len(machines) == 1
    firsts: dict[str, str] = {}
    for node in alike:
        group = _NETWORK if one_server else node.seen_from
        if (first := firsts.setdefault(group, node.name)) != node.name:
            yield node.name, first
