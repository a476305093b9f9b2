"""One of the processes of test_tensor_parallel.py: all of its cases, in one process of each rank.

Usage: tensor_parallel_worker.py RANKS FOLDER PORTS (features FOLDER.. | runs FOLDER); FOLDER: see forking.ranks
"""

import json
import os
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist

from tests.factories import forking
from trainer.__main__ import main
from trainer.data.packing import Packed, layout, packed
from trainer.runtime.data_parallel import holders
from trainer.target.model import Target
from trainer.target.tensor_parallel import TensorGroup, weight_bytes

CPU = torch.device("cpu")
LAYERS = (0, 2)
COMPILED = "qwen3"
"""The kind whose layers are compiled too."""


def say_what(place: Path, said: dict[str, Any]) -> None:
    """Write what this rank found."""
    (place / f"found-{os.environ['RANK']}.json").write_text(json.dumps(said))


def features(ports: list[str], folders: list[Path]) -> None:
    """Compare the features of split targets with those of whole ones."""
    world = int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(1)
    os.environ["MASTER_PORT"] = ports.pop()
    dist.init_process_group("gloo")
    group = holders(SimpleNamespace(shape=SimpleNamespace(world=world), device=CPU), 2)  # type: ignore[arg-type]
    assert group is not None
    ids = torch.randint(0, 96, (2, 16), generator=torch.Generator().manual_seed(0))
    documents, places = layout([[7, 5], [16]], 16)
    rows = packed(documents, places, torch.tensor([[1, 8], [2, 9]]))
    for folder in folders:
        say_what(folder, _compared(folder, group, ids, rows))
    dist.destroy_process_group()


def _bytes(model: torch.nn.Module) -> int:
    return sum(each.nbytes for held in (model.parameters(), model.buffers()) for each in held)


def _compared(folder: Path, group: TensorGroup, ids: torch.Tensor, rows: Packed) -> dict[str, Any]:
    def loaded(*, last: bool, group: TensorGroup | None = None) -> Target:
        return Target.load(folder, LAYERS, CPU, torch.float32, last=last, group=group)

    whole, split = (loaded(last=True, group=each) for each in (None, group))
    (logits,), (own,) = ([target.model(ids).logits] for target in (whole, split))
    far = {
        "plain": whole.features(ids) - split.features(ids),
        "packed": whole.features(ids, rows) - split.features(ids, rows),
        "logits": logits - own,
        "embedding": whole.shared.embedding - split.shared.embedding,
        "head": whole.shared.head - split.shared.head,
    }
    if folder.name == COMPILED:
        split.compile("eager")
        far["compiled"] = whole.features(ids) - split.features(ids)
    counters = torch._dynamo.utils.counters["graph_break"]
    return {
        "far": {name: float(each.abs().max()) for name, each in far.items()},
        "size": float(whole.features(ids).abs().max()),
        "breaks": dict(counters),
        "place": group.place,
        "bytes": [_bytes(target.model) for target in (whole, split)],
        "foretold": [weight_bytes(folder, size, 4) for size in (1, 2)],
        "exchanged": _exchanged(group, ids, rows),
    }


def _exchanged(group: TensorGroup, ids: torch.Tensor, rows: Packed) -> bool:
    """Return whether the members told each other their batches, and that the second one's features are cached."""
    own: Any = SimpleNamespace(ids=ids + group.place, packed=rows, features=ids if group.place else None)
    first, second = group.exchange(own)
    if first is None or first[1] is None:
        return False
    stopped = group.asked(lambda: bool(group.place))()
    going = group.asked(lambda: False)()
    return torch.equal(first[0], ids) and torch.equal(first[1].places, rows.places) and second is None \
        and stopped and not going  # fmt: skip


def runs(ports: list[str], place: Path) -> None:
    """Train with a target on each device, with split ones, and once more from the middle."""

    def run(name: str, *flags: str) -> None:
        os.environ["MASTER_PORT"] = ports.pop()
        argv = [*json.loads((place / "flags.json").read_text()), "--output", str(place / name), *flags]
        code = main(argv)
        assert code == 0, (name, code)

    split = ["--set", "target.tensor_parallel=2"]
    judged = ["--set", "run.evaluate_every=4"]
    run("whole", *judged)
    run("split", *judged, *split)
    if os.environ["RANK"] == "0":
        shutil.copytree(place / "split" / "checkpoints" / "step-000004", place / "held" / "step-000004")
        (place / "resumed").mkdir()
        (place / "held").rename(place / "resumed" / "checkpoints")
    unjudged = ["--set", "run.evaluate_tokens=1"]
    run("cached", *split, *unjudged, "--set", "cache.size_gb=1", "--set", f"cache.path={place / 'features'}")
    run("resumed", *split, *unjudged, "--resume")


if __name__ == "__main__":
    count, held, told, what, *words = sys.argv[1:]
    forking.ranks(int(count), Path(held))
    if what == "features":
        features(told.split(","), [Path(word) for word in words])
    else:
        runs(told.split(","), Path(words[0]))
