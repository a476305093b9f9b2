"""What a node said of the tasks that it was given, read: pure. It is another machine's word, and is bounded."""

from envdoctor.fleet.answer import framed
from envdoctor.fleet.gather import Said
from envdoctor.model.codec import CodecError, decode
from envdoctor.model.frozen import frozen
from envdoctor.standards.bounded_json import loads

_LONGEST, _NOTES = 2_000, 50


@frozen
class TaskSaid:
    """How one task ended on a node."""

    code: int
    """Its exit code."""
    status: str = ""
    """As the command's document has it: "planned", "nothing to repair", "restored"."""
    digest: str = ""
    """Of the plan."""
    problem: str = ""
    hint: str = ""
    text: str = ""
    """What the command prints for a person."""
    notes: tuple[str, ...] = ()

    @property
    def why(self) -> str:
        """Return why it did not end well, on one line; empty where it did."""
        if not self.code:
            return ""
        said = self.problem or (self.text.strip().splitlines() or [f"exit code {self.code}"])[-1]
        return f"{said}; {self.hint}" if self.hint else said


@frozen
class VisitSaid:
    """What one visit came to."""

    node: str
    tasks: tuple[TaskSaid, ...] = ()
    """Up to the first that did not end well."""
    problem: str = ""
    """Why no task was begun."""


@frozen
class _Told:
    tasks: tuple[TaskSaid, ...] = ()
    problem: str = ""


def said_in(said: Said, mark: str) -> VisitSaid:
    """Return what a node printed at the end of a visit."""
    if said.problem:
        return VisitSaid(node=said.name, problem=said.problem)
    text, problem = framed(mark, said.out)
    if problem:
        return VisitSaid(node=said.name, problem=problem)
    try:
        told: _Told = decode(_Told, loads(text))
    except (ValueError, CodecError) as error:
        return VisitSaid(node=said.name, problem=f"its answer has another form: {str(error)[:200]}")
    if not told.tasks and not told.problem:
        return VisitSaid(node=said.name, problem="its answer names no task")
    return VisitSaid(node=said.name, tasks=tuple(map(_bounded, told.tasks)), problem=told.problem[:_LONGEST])


def _bounded(task: TaskSaid) -> TaskSaid:
    return TaskSaid(
        code=task.code,
        status=task.status[:_LONGEST],
        digest=task.digest[:_LONGEST],
        problem=task.problem[:_LONGEST],
        hint=task.hint[:_LONGEST],
        text=task.text,
        notes=tuple(note[:_LONGEST] for note in task.notes[:_NOTES]),
    )
