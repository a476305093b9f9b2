"""`envdoctor fleet check`: the nodes beside each other."""

from collections.abc import Iterator, Sequence
from typing import Any

from envdoctor.compare.majority import ComparedFact, Stated
from envdoctor.fleet.matrix import FleetView
from envdoctor.fleet.remedies import remedies
from envdoctor.model.codec import encode
from envdoctor.model.wording import counted
from envdoctor.report.style import Style, printable

_LONGEST, _ROWS, _NAMED = 44, 30, 6
TIED = "no majority says which of them is wrong; a profile does, on each: `envdoctor check VENV --profile PROFILE`"
"""What to do about nodes that differ without a majority."""
_HEADS, _TIED_HEADS = ("fact", "most nodes", "others", "who"), ("fact", "one value", "another", "who")


def text(data: FleetView, style: Style) -> str:
    """Return one table of what differs, who could not tell, and what to do on which node."""
    return "\n".join(_lines(data, style)) + "\n"


def document(data: FleetView) -> dict[str, Any]:
    """Return the nodes and the facts in which not all agree, as plain values."""
    rows = data.agreement.rows if data.agreement else ()
    return {
        "engine": data.engine,
        "conclusion": conclusion(data),
        "nodes": [
            {
                "name": node.name,
                "state": data.state(node),
                "problem": node.problem or None,
                "host": node.answer.host if node.answer else None,
                "prefix": node.answer.prefix if node.answer else None,
                "findings": encode(node.answer.findings) if node.answer else [],
                "could_not_tell": list(data.could_not_tell(node)),
                "remedies": list(remedies(data, node)),
            }
            for node in data.nodes
        ],
        "facts": [
            {
                "fact": row.fact,
                "settled": row.settled,
                "usual": {"value": row.usual.value, "nodes": list(row.usual.who)},
                "others": [{"value": other.value, "nodes": list(other.who)} for other in row.others],
                "unread": [{"reason": gap.value, "nodes": list(gap.who)} for gap in row.unread],
            }
            for row in rows
        ],
        "groups": [list(group) for group in data.agreement.groups] if data.agreement else [],
        "exit_code": int(data.exit_code),
    }


def conclusion(data: FleetView) -> str:
    """Return one sentence without a full stop."""
    states = [data.state(node) for node in data.nodes]
    number = {state: states.count(state) for state in ("same", "differs", "tied", "broken", "unknown")}
    head = f"{counted(len(states), 'node')} over {data.engine}"
    if number["same"] == len(states):
        return f"{head}: one stack"
    parts = [f"{number['same']} as most"] if number["same"] else []
    parts += [f"{counted(number['differs'], 'node', 'differs', 'differ')}"] if number["differs"] else []
    parts += [f"{counted(number['tied'], 'node', 'differs', 'differ')} without a majority"] if number["tied"] else []
    own = "its own" if number["broken"] == 1 else "their own"
    parts += [f"{counted(number['broken'], 'node', 'has', 'have')} errors of {own}"] if number["broken"] else []
    parts += [f"{counted(number['unknown'], 'node')} could not tell"] if number["unknown"] else []
    return f"{head}: {', '.join(parts)}"


def _lines(data: FleetView, style: Style) -> Iterator[str]:
    states = {data.state(node) for node in data.nodes}
    paint = "error" if states & {"differs", "tied", "broken"} else "unknown" if "unknown" in states else "ok"
    yield style.paint(paint, printable(conclusion(data)))
    rows = [row for row in data.agreement.rows if row.others] if data.agreement else []
    if rows:
        yield ""
        yield from _table(rows, style)
    yield from _unread(data, style)
    if "tied" in states:
        yield ""
        yield f"help: {TIED}"
    for node in data.nodes:
        lines = remedies(data, node)
        errors = [one for one in node.answer.findings if one.severity == "error"] if node.answer else []
        if not lines and not errors:
            continue
        yield ""
        where = f"  {printable(node.answer.prefix)}" if node.answer else ""
        yield style.paint("strong", printable(node.name)) + where
        yield from (f"  {style.paint('error', printable(one.code))}: {printable(one.title)}" for one in errors)
        yield from (f"  help: {printable(line)}" for line in lines)


def _table(rows: Sequence[ComparedFact], style: Style) -> Iterator[str]:
    listed = rows if style.verbosity > 0 else rows[:_ROWS]
    heads = _HEADS if all(row.settled for row in rows) else _TIED_HEADS
    cells = [heads, *(cell for row in listed for cell in _cells(row))]
    widths = [max(len(cell[column]) for cell in cells) for column in range(3)]
    for cell in cells:
        yield "  " + "  ".join(part.ljust(width) for part, width in zip(cell, widths, strict=False)) + "  " + cell[3]
    if len(rows) > len(listed):
        yield f"  … and {counted(len(rows) - len(listed), 'fact')} more (-v lists all)"


def _cells(row: ComparedFact) -> Iterator[tuple[str, str, str, str]]:
    for at, other in enumerate(row.others):
        first = (printable(row.fact), _shown(row.usual)) if not at else ("", "")
        yield (*first, _shown(other), named(other.who))


def _shown(stated: Stated) -> str:
    value = printable(stated.value) or "none"
    return value if len(value) <= _LONGEST else f"{value[: _LONGEST // 2 - 1]}…{value[-_LONGEST // 2 :]}"


def named(who: Sequence[str]) -> str:
    """Return the first few names, and how many more there are."""
    more = f" and {len(who) - _NAMED} more" if len(who) > _NAMED else ""
    return printable(", ".join(who[:_NAMED])) + more


def _unread(data: FleetView, style: Style) -> Iterator[str]:
    told: dict[str, list[str]] = {}
    for node in data.nodes:
        reasons = [node.problem] if node.answer is None else data.could_not_tell(node)
        for reason in reasons:
            told.setdefault(reason, []).append(node.name)
    if told:
        yield ""
        yield style.paint("unknown", "could not tell")
        yield from (f"  {named(names)}: {printable(reason)}" for reason, names in told.items())
