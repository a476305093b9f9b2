"""`envdoctor history`: the venv in place and the ones that were kept, and the room they take."""

import json as json_module

from envdoctor.cli.generation_options import HEAD, line
from envdoctor.cli.options import FormatOption, JsonOption, VenvArgument, VenvOption, one_venv
from envdoctor.cli.terminal import write_result
from envdoctor.doctor.workspace import Workspace
from envdoctor.errors import TargetError
from envdoctor.exitcodes import ExitCode
from envdoctor.model.codec import encode
from envdoctor.model.wording import size
from envdoctor.swap import generations, journal
from envdoctor.swap.generations import Generation
from envdoctor.swap.space import Space, Tree, scan, space
from envdoctor.swap.store import Store


def history(
    venv: VenvArgument = "",
    venv_option: VenvOption = "",
    output_format: FormatOption = "text",
    json: JsonOption = False,
) -> int:
    """List the venvs that restore, repair and rollback kept, newest first, and what removing each would free.

    Exit codes: 0 listed, 2 bad input, 4 the journal of an interrupted command cannot be read.
    """
    store = Store.of(Workspace.open(one_venv(venv, venv_option)).folder)
    found = generations.listed(store)
    current = generations.describe(store.target, 0) if store.target.is_dir() else None
    trees = generations.trees(found)
    pending = journal.read(store)
    if not (found or pending or (store.target / "pyvenv.cfg").is_file()):
        raise TargetError(
            f"there is no venv at {store.target}, and none was kept of it",
            "name a venv folder or its interpreter: `envdoctor history path/to/.venv`",
        )
    unfinished = f"an earlier {pending} was interrupted; the next restore, repair, rollback or prune puts it right"
    if json or output_format == "json":
        document = {
            **HEAD,
            "target": str(store.target),
            "current": encode(current) if current else None,
            "generations": [_entry(item, trees[item.number]) for item in found],
            "space": _numbers(space(trees.values())),
            "interrupted": unfinished if pending else "",
        }
        write_result(json_module.dumps(document, indent=2) + "\n")
        return ExitCode.OK
    lines = [f"  now   {line(current) if current else 'no venv'}   {store.target}"]
    lines += [f"  {item.number:<5} {line(item)}   kept {item.kept_at}   {_room(trees[item.number])}" for item in found]
    lines += _sum(store, trees) if found else ["", "no generation is kept"]
    lines += ["", unfinished] if pending else []
    write_result("\n".join(lines) + "\n")
    return ExitCode.OK


def _sum(store: Store, trees: dict[int, Tree]) -> list[str]:
    together = space(trees.values())
    everywhere = space([*trees.values(), scan(store.target)])
    kept = (
        f"all kept ones take {size(together.bytes)}, hardlinks counted once; removing them all frees "
        f"{size(together.frees)}, the rest is shared with the venv, uv's cache or other venvs"
    )
    shared = f"{size(everywhere.shared)} shared with uv's cache or other venvs"
    return ["", kept, f"with the venv itself: {size(everywhere.bytes)}, of which {shared}"]


def _room(tree: Tree) -> str:
    taken = space([tree])
    return f"{size(taken.bytes)}, {size(taken.frees)} its own"


def _entry(generation: Generation, tree: Tree) -> dict[str, object]:
    return {**encode(generation), "space": _numbers(space([tree]))}


def _numbers(taken: Space) -> dict[str, int]:
    return {"bytes": taken.bytes, "frees": taken.frees, "shared": taken.shared}
