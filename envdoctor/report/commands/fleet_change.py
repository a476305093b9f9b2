"""`envdoctor fleet restore`, `repair`, `rollback` and `cache push`: what each node would do, and what became of it."""

from collections.abc import Iterator, Sequence
from typing import Any

from envdoctor.model.wording import counted
from envdoctor.report.style import Style, printable
from envdoctor.rollout.sharing import sharers
from envdoctor.rollout.view import ChangedNode, FleetChange

_PAINTS = {
    "done": "ok",
    "errors left": "unknown",
    "failed": "error",
    "could not plan": "unknown",
    "not begun": "unknown",
}
_ORDER = ("planned", "done", "errors left", "nothing to do", "done before", "failed", "not begun", "could not plan")


def text(data: FleetChange, style: Style) -> str:
    """Return what nodes would do where nothing was begun, nodes with one plan together, else what became of each."""
    return "\n".join(_lines(data, style)) + "\n"


def document(data: FleetChange) -> dict[str, Any]:
    """Return the nodes as plain values."""
    return {
        "kind": data.kind,
        "engine": data.engine,
        "conclusion": conclusion(data),
        "digest": data.digest,
        "refused": data.refused or None,
        "back": data.back or None,
        "undo": data.undo or None,
        "nodes": [
            {
                "name": node.name,
                "step": node.step,
                "digest": node.digest or None,
                "plan": node.plan or None,
                "problem": node.problem or None,
                "outcome": node.outcome or None,
                "notes": list(node.notes),
                "shares": node.shares or None,
            }
            for node in data.nodes
        ],
        "exit_code": int(data.exit_code),
    }


def conclusion(data: FleetChange) -> str:
    """Return one sentence without a full stop."""
    steps = [node.step for node in data.nodes]
    parts = [f"{steps.count(step)} {step}" for step in _ORDER if step in steps]
    return f"fleet {data.kind}, {counted(len(steps), 'node')} over {data.engine}: {', '.join(parts)}"


def _lines(data: FleetChange, style: Style) -> Iterator[str]:
    if data.refused:
        yield from (printable(data.refused), "")
    yield style.paint("strong", printable(conclusion(data)))
    if data.back:
        yield f"back to before {printable(data.back)}"
    if data.planned:
        yield from _plans(data.nodes, style)
    yield from _shared(data.nodes)
    yield from _table(data.nodes, style)
    if data.planned:
        yield from ("", f"  digest  {data.digest}")
    elif any(node.step in ("failed", "not begun") for node in data.nodes):
        yield ""
        yield "help: the same command with `--resume` and without `--plan` plans for all nodes but those that are done"
    if data.undo and data.exchanged:
        yield ""
        yield f"help: the old venv of a changed node is kept; `{printable(data.undo)}` puts it back"


def _plans(nodes: Sequence[ChangedNode], style: Style) -> Iterator[str]:
    """Yield each plan once, with the nodes whose it is: what differs in nothing but given paths is one plan."""
    groups: dict[str, list[ChangedNode]] = {}
    for node in nodes:
        if node.step == "planned":
            groups.setdefault(node.shared, []).append(node)
    for plan, alike in groups.items():
        shown = plan if len(alike) > 1 else alike[0].plan
        yield ""
        yield style.paint("strong", f"on {printable(', '.join(node.name for node in alike))}")
        yield from (f"  {printable(line)}" if line else "" for line in shown.rstrip("\n").split("\n"))
        notes = dict.fromkeys(note for node in alike for note in node.notes)
        yield from (f"  {printable(note)}" for note in notes)


def _shared(nodes: Sequence[ChangedNode]) -> Iterator[str]:
    """Yield who shares whose venv."""
    for first, others in sharers(nodes).items():
        yield ""
        yield f"  {printable(', '.join((first, *others)))} share one venv, which {printable(first)} alone changes"


def _table(nodes: Sequence[ChangedNode], style: Style) -> Iterator[str]:
    listed = [node for node in nodes if node.step != "planned"]
    if not listed:
        return
    yield ""
    width = max(len(printable(node.name)) for node in listed)
    steps = max(len(node.step) for node in listed)
    for node in listed:
        said, *more = node.problem.splitlines() or node.outcome.strip().splitlines()[:1] or [""]
        step = style.paint(_PAINTS.get(node.step, "dim"), node.step) + " " * (steps - len(node.step))
        yield f"  {printable(node.name).ljust(width)}  {step}  {printable(said)}".rstrip()
        yield from (f"  {'':{width}}  {printable(line)}" for line in (*more, *node.notes))
