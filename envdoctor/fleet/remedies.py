"""What to do on each node that needs something, and on no other: pure."""

import shlex
from collections.abc import Iterator

from envdoctor.compare.sheet import family_of, setting_of
from envdoctor.fleet.answer import NodeAnswer, NodeReport
from envdoctor.fleet.matrix import FleetView

_OF_VENV = frozenset(
    ("torch", "CUDA of torch", "commit of torch", "Python", "NCCL", "bytes of NCCL", "stack", "library", "package")
)


def remedies(view: FleetView, node: NodeReport) -> tuple[str, ...]:
    """Return what to do on a node; each holds the command to be run there."""
    if node.answer is None or view.state(node) in ("same", "tied", "unknown"):
        return ()
    return tuple(dict.fromkeys(_remedies(view, node.name, node.answer)))


def _remedies(view: FleetView, name: str, answer: NodeAnswer) -> Iterator[str]:
    broken = [one for one in answer.findings if one.severity == "error"]
    for finding in broken[:1]:
        # A command with signs that cannot be shown as they are would be another one when it is copied.
        yield from (f"`{command}`" for command in finding.commands if command.isprintable())
    assert view.agreement is not None  # noqa: S101 - it answered
    # A tie says of nobody that it is wrong, and a command would make one of both sides like the other.
    rows = [row for row in view.agreement.rows if row.settled and any(name in other.who for other in row.others)]
    families = {family_of(row.fact) for row in rows}
    if families & _OF_VENV and not broken and answer.prefix.isprintable():
        command = f"envdoctor restore --profile PROFILE --venv {shlex.quote(answer.prefix)} --dry-run"
        yield f"`{command}` shows what would change there, where PROFILE is {_from(view, name)}"
    for row in rows:
        if command := setting_of(row.fact, row.usual.value):
            yield f"`{command}`"
    if "driver" in families:
        yield "give it the driver of the others, or leave it out of the job"


def _from(view: FleetView, name: str) -> str:
    for node in view.nodes:
        if node.name == name or node.answer is None or not node.answer.prefix.isprintable():
            continue
        if view.state(node) == "same":
            command = f"envdoctor capture NAME --venv {shlex.quote(node.answer.prefix)}"
            return f"that of the others (on {node.name}: `{command}`)"
    return "the one that the job wants"
