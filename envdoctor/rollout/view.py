"""A change on a fleet: what each node would do, what became of it, and what is to be said of all. Pure."""

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Literal

from envdoctor.exitcodes import ExitCode
from envdoctor.model.frozen import frozen, replace
from envdoctor.rollout.said import TaskSaid, VisitSaid

Kind = Literal["restore", "repair", "rollback", "cache push"]
NodeStep = Literal[
    "planned", "nothing to do", "could not plan", "done before", "not begun", "done", "errors left", "failed"
]
"""`could not plan`: it did not answer, or its own command refuses; nothing is changed there. `not begun`: planned, and
left as it is because another node failed. `errors left`: repaired, and its check finds errors that it found before and
that no repair is for; or gone back to a venv in which its check finds errors. `failed`: what it says of itself is in
`problem`."""
_UNKNOWN = "whether it was changed is not known"
_EVIDENCE = 40
"""Lines of a check that are shown of a node that it fails on."""


@frozen
class ChangedNode:
    """One node of the change."""

    name: str
    step: NodeStep
    digest: str = ""
    """Of its plan; what is carried out there is that plan or nothing."""
    plan: str = ""
    """As its own command shows it."""
    shared: str = ""
    """The same with `{node}` for its name in the paths that were given with that."""
    problem: str = ""
    notes: tuple[str, ...] = ()
    outcome: str = ""
    """What its own command says at the end."""
    venv: str = ""
    """Of one that was asked, here and below: its venv, as `swap/same_venv.py` tells it apart from others."""
    became: str = ""
    """Of one that was visited: its venv after that; empty where that is not known."""
    place: str = ""
    seen_from: str = ""
    shares: str = ""
    """The node that changes the venv which is this one's too; empty for none."""


@frozen
class FleetChange:
    """A change on all nodes."""

    kind: Kind
    engine: str
    nodes: tuple[ChangedNode, ...]
    refused: str = ""
    """Why the plan that was asked for is not carried out."""
    back: str = ""
    """Of a rollback: which change it goes back before."""
    undo: str = ""
    """The command that gives these nodes the venvs of before."""

    @property
    def digest(self) -> str:
        """Return one digest of what each node would do: 40 hex digits."""
        asked = (one for one in self.nodes if one.digest or one.step not in ("done before", "errors left"))
        told = [self.kind, sorted((one.name, one.digest) for one in asked)]
        return hashlib.sha256(json.dumps(told).encode("utf-8", "surrogateescape")).hexdigest()[:40]

    @property
    def planned(self) -> tuple[ChangedNode, ...]:
        """Nodes that have something to do, in their order; the first is the canary."""
        return tuple(one for one in self.nodes if one.step == "planned")

    @property
    def exit_code(self) -> ExitCode:
        """Return 0 where nothing is left, 4 where a node failed or a plan was refused, else 3."""
        steps = {one.step for one in self.nodes}
        if self.refused or steps & {"failed", "not begun"}:
            return ExitCode.RESTORE_FAILED
        return ExitCode.UNKNOWN if steps & {"could not plan", "errors left"} else ExitCode.OK

    @property
    def exchanged(self) -> bool:
        """Tell whether a node has another venv than before, or may have."""
        changed = any(one.became not in ("", one.venv) for one in self.nodes)
        return changed or any(one.step == "failed" and not one.became for one in self.nodes)

    def with_nodes(self, changed: "dict[str, ChangedNode]") -> "FleetChange":
        """Return the same with some nodes as they are now."""
        return replace(self, nodes=tuple(changed.get(one.name, one) for one in self.nodes))


def done_before(name: str, state: str) -> ChangedNode:
    """Return a node that an earlier run of the change has reached."""
    if state == "errors left":
        return ChangedNode(name=name, step="errors left", problem="done before; its check found errors then")
    return ChangedNode(name=name, step="done before")


def planned(kind: Kind, said: VisitSaid, paths: Mapping[str, str]) -> ChangedNode:
    """Return a node that was asked what it would do. paths: of the node -> as they were given for all nodes."""
    if said.problem:
        return ChangedNode(name=said.node, step="could not plan", problem=said.problem)
    task = said.tasks[0]
    if task.code:
        return ChangedNode(name=said.node, step="could not plan", problem=task.why, notes=task.notes)
    idle = kind in ("repair", "rollback") and task.status != "planned"
    if idle and kind == "rollback" and (found := _found_in(task)):
        step: NodeStep = "errors left"
    else:
        step, found = "nothing to do" if idle else "planned", task.text.strip() if idle and kind == "rollback" else ""
    return ChangedNode(
        name=said.node,
        step=step,
        digest="" if idle else task.digest,
        plan=task.text,
        shared=_shared(task.text, paths),
        problem=found,
        notes=task.notes,
        venv=task.venv,
        place=task.place,
        seen_from=task.seen_from,
    )


def _found_in(check: TaskSaid) -> str:
    """Return what a check finds in the venv that was there before; empty for nothing."""
    if check.errors:
        return f"its check finds in the venv of before: {', '.join(check.errors)}"
    return check.why or check.problem


def _shared(plan: str, paths: Mapping[str, str]) -> str:
    for path, given in paths.items():
        plan = re.sub(rf"(?<![\w./-]){re.escape(path)}(?![\w.-])", lambda _, given=given: given, plan)  # type: ignore[misc]
    return plan


def carried_out(kind: Kind, node: ChangedNode, said: VisitSaid) -> ChangedNode:
    """Return a node that was told to carry out its plan, and then to check itself."""
    if said.problem:
        known = _UNKNOWN if said.begun else "nothing was changed there"
        return replace(node, step="failed", problem=f"{said.problem}; {known}")
    before, tasks = (said.tasks[:1], said.tasks[1:]) if kind == "repair" else ((), said.tasks)
    if not tasks:
        return replace(node, step="failed", problem=f"{before[0].why or 'it did nothing'}; nothing was changed there")
    change, *checks = tasks
    node = replace(node, became=change.venv)
    if change.code:
        problem = f"{change.why}; {_UNKNOWN}" if change.died else change.why
        return replace(node, step="failed", problem=problem, notes=change.notes)
    done = replace(node, step="done", outcome=change.text, notes=change.notes)
    if not checks:
        return replace(done, step="failed", problem="it was changed, and did not check itself")
    return _checked(kind, done, checks[-1], before)


def _checked(kind: Kind, done: ChangedNode, last: TaskSaid, before: tuple[TaskSaid, ...]) -> ChangedNode:
    """Return a node that was changed, as its check found it; before: of a repair, the check before that."""
    if not last.code:
        return done
    # Whether a cache will hit cannot always be told, and what was merged harms nobody.
    if kind == "cache push" and last.code == ExitCode.UNKNOWN:
        return replace(done, problem="whether the next run will hit could not be determined")
    if kind == "rollback" and not last.died:  # which is why it was changed: it is said, and ends nothing
        return replace(done, step="errors left", problem=_found_in(last))
    # An error that is gone may leave only what could not be told.
    codes = (before[0].code, ExitCode.UNKNOWN) if before else ()
    no_more = before and set(last.errors) <= set(before[0].errors) and not last.new_files
    if not last.died and last.code in codes and no_more:
        left = f"its check finds what it found before: {', '.join(last.errors)}" if last.errors else last.why
        return replace(done, step="errors left", problem=left)
    problem = f"it was changed, and its check says: {last.why}"
    found = "\n".join(last.text.rstrip("\n").split("\n")[:_EVIDENCE])
    return replace(done, step="failed", problem=f"{problem}\n{found}" if found not in ("", last.why) else problem)
