"""A change on a fleet: what each node would do, what became of it, and what is to be said of all. Pure."""

import hashlib
import json
from typing import Literal

from envdoctor.exitcodes import ExitCode
from envdoctor.model.frozen import frozen, replace
from envdoctor.rollout.said import VisitSaid

Kind = Literal["restore", "repair", "cache push"]
NodeStep = Literal["planned", "nothing to do", "could not plan", "done before", "not begun", "done", "failed"]
"""`could not plan`: it did not answer, or its own command refuses; nothing is changed there. `not begun`: planned, and
left as it is because another node failed. `failed`: what it says of itself is in `problem`."""


@frozen
class ChangedNode:
    """One node of the change."""

    name: str
    step: NodeStep
    digest: str = ""
    """Of its plan; what is carried out there is that plan or nothing."""
    plan: str = ""
    """As its own command shows it."""
    problem: str = ""
    notes: tuple[str, ...] = ()
    outcome: str = ""
    """What its own command says at the end."""


@frozen
class FleetChange:
    """A change on all nodes."""

    kind: Kind
    engine: str
    nodes: tuple[ChangedNode, ...]
    refused: str = ""
    """Why the plan that was asked for is not carried out."""

    @property
    def digest(self) -> str:
        """Return one digest of what each node would do: 40 hex digits."""
        told = [self.kind, sorted((one.name, one.digest) for one in self.nodes if one.step != "done before")]
        return hashlib.sha256(json.dumps(told).encode("utf-8", "surrogateescape")).hexdigest()[:40]

    @property
    def planned(self) -> tuple[ChangedNode, ...]:
        """Nodes that have something to do, in their order; the first is the canary."""
        return tuple(one for one in self.nodes if one.step == "planned")

    @property
    def exit_code(self) -> ExitCode:
        """Return 0 where nothing is left, 4 where a node failed or a plan was refused, 3 where one could not plan."""
        steps = {one.step for one in self.nodes}
        if self.refused or steps & {"failed", "not begun"}:
            return ExitCode.RESTORE_FAILED
        return ExitCode.UNKNOWN if "could not plan" in steps else ExitCode.OK

    def with_nodes(self, changed: "dict[str, ChangedNode]") -> "FleetChange":
        """Return the same with some nodes as they are now."""
        return replace(self, nodes=tuple(changed.get(one.name, one) for one in self.nodes))


def planned(kind: Kind, said: VisitSaid) -> ChangedNode:
    """Return a node that was asked what it would do."""
    if said.problem:
        return ChangedNode(name=said.node, step="could not plan", problem=said.problem)
    task = said.tasks[0]
    if task.code:
        return ChangedNode(name=said.node, step="could not plan", problem=task.why, notes=task.notes)
    idle = kind == "repair" and task.status != "planned"
    # A snapshot's plan is its sha256, which every node is given, and what the node would merge of it.
    digest = task.digest or hashlib.sha256(task.text.encode()).hexdigest()[:40]
    return ChangedNode(
        name=said.node,
        step="nothing to do" if idle else "planned",
        digest="" if idle else digest,
        plan=task.text,
        notes=task.notes,
    )


def carried_out(kind: Kind, node: ChangedNode, said: VisitSaid) -> ChangedNode:
    """Return a node that was told to carry out its plan, and then to check itself."""
    if said.problem:
        return replace(node, step="failed", problem=f"{said.problem}; whether it was changed is not known")
    change, *checks = said.tasks
    if change.code:
        return replace(node, step="failed", problem=change.why, notes=change.notes)
    # Whether a cache will hit cannot always be told, and what was merged harms nobody.
    unsure = kind == "cache push" and bool(checks) and checks[-1].code == ExitCode.UNKNOWN
    if not checks:
        return replace(node, step="failed", problem="it was changed, and did not check itself", outcome=change.text)
    if checks[-1].code and not unsure:
        problem = f"it was changed, and its check says: {checks[-1].why}"
        return replace(node, step="failed", problem=problem, outcome=change.text)
    problem = "whether the next run will hit could not be determined" if unsure else ""
    return replace(node, step="done", outcome=change.text, problem=problem, notes=change.notes)
