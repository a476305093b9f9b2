"""`envdoctor history`: the venv in place, the kept ones, and the room they take."""

from typing import Any

from envdoctor.app.generations import History
from envdoctor.model.wording import size
from envdoctor.report.generation_text import line, plain
from envdoctor.report.style import Style
from envdoctor.swap.generations import Generation
from envdoctor.swap.space import Space, Tree, space


def text(data: History, style: Style) -> str:
    """Return a line for the venv in place, one for each kept, and what removing them frees."""
    del style
    lines = [f"  now   {line(data.current) if data.current else 'no venv'}   {data.target}"]
    lines += [
        f"  {item.number:<5} {line(item)}   kept {item.kept_at}   {_room(data.trees[item.number])}"
        for item in data.kept
    ]
    lines += _sum(data) if data.kept else ["", "no backup is kept"]
    lines += ["", _unfinished(data)] if data.pending else []
    return "\n".join(lines) + "\n"


def document(data: History) -> dict[str, Any]:
    """Return the same as plain values."""
    return {
        "target": data.target,
        "current": plain(data.current) if data.current else None,
        "generations": [_entry(item, data.trees[item.number]) for item in data.kept],
        "space": _numbers(space(data.trees.values())),
        "interrupted": _unfinished(data),
    }


def _unfinished(data: History) -> str:
    if not data.pending:
        return ""
    change = "the next restore, repair, rollback or prune"
    return f"an earlier {data.pending} was interrupted; {change} finishes or undoes it"


def _sum(data: History) -> list[str]:
    together = space(data.trees.values())
    kept = (
        f"all backups take {size(together.bytes)}, hardlinks counted once; removing them all frees "
        f"{size(together.frees)}, the rest is shared with the venv, uv's cache or other venvs"
    )
    shared = f"{size(data.everywhere.shared)} shared with uv's cache or other venvs"
    return ["", kept, f"with the venv itself: {size(data.everywhere.bytes)}, of which {shared}"]


def _room(tree: Tree) -> str:
    taken = space([tree])
    return f"{size(taken.bytes)}, {size(taken.frees)} its own"


def _entry(generation: Generation, tree: Tree) -> dict[str, object]:
    return {**plain(generation), "space": _numbers(space([tree]))}


def _numbers(taken: Space) -> dict[str, int]:
    return {"bytes": taken.bytes, "frees": taken.frees, "shared": taken.shared}
