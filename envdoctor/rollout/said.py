"""What a node said of the tasks that it was given, read: pure. It is another machine's word, and is bounded."""

import re
from collections.abc import Callable, Mapping

from envdoctor.fleet.answer import framed
from envdoctor.fleet.gather import Said
from envdoctor.model.codec import CodecError, decode
from envdoctor.model.frozen import frozen, replace
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
    errors: tuple[str, ...] = ()
    """Of a check: code and subject of each finding that is an error."""
    new_files: int = 0
    """Of a check: how many files these findings are about that the check before a repair did not find so."""
    died: bool = False
    """Whether it ended without an answer of its own: what it did until then is not known."""
    venv: str = ""
    place: str = ""
    seen_from: str = ""
    """Of a plan: the venv that it is for, as `swap/same_venv.py` has it."""

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
    """Why it says nothing of any task."""
    begun: bool = True
    """False where it is known that no task was begun."""


@frozen
class _Told:
    tasks: tuple[TaskSaid, ...] = ()
    problem: str = ""


def said_in(said: Said, mark: str) -> VisitSaid:
    """Return what a node printed at the end of a visit."""
    if said.problem:
        return VisitSaid(node=said.name, problem=said.problem, begun=said.begun)
    text, problem = framed(mark, said.out)
    if problem:
        return VisitSaid(node=said.name, problem=problem)
    try:
        told: _Told = decode(_Told, loads(text))
    except (ValueError, CodecError) as error:
        return VisitSaid(node=said.name, problem=f"its answer has another form: {str(error)[:200]}")
    if not told.tasks and not told.problem:
        return VisitSaid(node=said.name, problem="its answer names no task")
    return VisitSaid(
        node=said.name,
        tasks=tuple(map(_bounded, told.tasks)),
        problem=told.problem[:_LONGEST],
        begun=bool(told.tasks),
    )


def as_here(said: VisitSaid, folder: str, here: Mapping[str, str]) -> VisitSaid:
    """Return the same with the names that files have here in place of those in a folder of the node (an expression)."""

    def known(text: str) -> str:
        for path, name in here.items():
            text = re.sub(rf"{folder}/{re.escape(path)}(?![\w.-])", lambda _, name=name: name, text)  # type: ignore[misc]
        return text

    return replace(said, problem=known(said.problem), tasks=tuple(_renamed(task, known) for task in said.tasks))


def _renamed(task: TaskSaid, known: Callable[[str], str]) -> TaskSaid:
    return replace(
        task,
        problem=known(task.problem),
        hint=known(task.hint),
        text=known(task.text),
        notes=tuple(map(known, task.notes)),
    )


def _bounded(task: TaskSaid) -> TaskSaid:
    return TaskSaid(
        code=task.code,
        status=task.status[:_LONGEST],
        digest=task.digest[:_LONGEST],
        problem=task.problem[:_LONGEST],
        hint=task.hint[:_LONGEST],
        text=task.text,
        notes=tuple(note[:_LONGEST] for note in task.notes[:_NOTES]),
        errors=tuple(error[:_LONGEST] for error in task.errors),
        new_files=task.new_files,
        died=task.died,
        venv=task.venv[:_LONGEST],
        place=task.place[:_LONGEST],
        seen_from=task.seen_from[:_LONGEST],
    )
