"""What a micro-batch computes and how much of it is work, for chat-like rows: no GPU and no model is needed.

    python3 benchmarks/trainer_packing.py --out trainer_packing.json

Rows and sizes are those of benchmarks/trainer_gpu.py (`--chat`): 150 to 1,024 tokens, 55 % the assistant's, Qwen3-8B's
sizes, 512 anchors of 16 a row, micro-batches of 8,192 positions. Counted over one epoch:

real        real tokens of all positions
blocks      present blocks of all blocks
predicted   predictions that count of those the present blocks have room for: a document's end cuts its last blocks
target      useful pairs of the target's causal attention of the pairs that are computed: all of a row under a dense
            table, half of a row under flash attention's causal rule, or the 128 x 128 tiles that a document touches
drafter     visible pairs of the drafter's attention of those in the tiles that flex_attention visits
useful      useful FLOPs (trainer/step/flops.py) of all that are computed, at equal rates of every kernel: the part of
            MFU that data and masks decide. What the kernels reach is not measured here.
"""

# ruff: noqa: E402 - the repository root comes onto sys.path first
import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import torch

from trainer.data.buckets import Plan
from trainer.data.loader import Batch, BatchMaker
from trainer.data.rows import Row, RowList
from trainer.drafter.mask import TILE, tile_table
from trainer.drafter.model import DrafterShape
from trainer.settings.sections import DataConfig, DrafterConfig
from trainer.step.flops import BatchWork, TargetCost, drafter_step
from trainer.step.loss import targets

# Qwen3-8B and the published drafter for it.
SHAPE = DrafterShape(
    hidden=4096, layers=5, heads=32, key_value_heads=8, head_dim=128, intermediate=12288, features=5, rope_theta=1e6
)
LAYERS, VOCABULARY, BLOCK, ANCHORS, LENGTH, TOKENS = 34, 151_936, 16, 512, 4096, 8192
COST = TargetCost(
    matrix_elements=LAYERS * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 12288), attention_width=LAYERS * 4096
)


@dataclass(slots=True)
class Sums:
    """What an epoch computes."""

    tokens: int = 0
    positions: int = 0
    blocks: int = 0
    room: int = 0
    predicted: int = 0
    micro_batches: int = 0
    target: dict[str, float] = field(default_factory=lambda: dict.fromkeys(("useful", "dense", "causal", "tiles"), 0.0))
    drafter: dict[str, float] = field(default_factory=lambda: dict.fromkeys(("useful", "tiles"), 0.0))
    useful: float = 0.0
    computed: float = 0.0
    """FLOPs of everything but the target's attention, which `told` adds for each way to compute it."""


def rows(count: int) -> RowList:
    """Return rows of the chat-like distribution; which tokens they have plays no part."""
    drawn = torch.randint(150, 1025, (count,), generator=torch.Generator().manual_seed(1)).tolist()
    made = []
    for line, length in enumerate(drawn):
        silent = round(length * 0.45)
        made.append(Row(ids=[1] * length, wanted=[0] * silent + [1] * (length - silent), origin=f"chat:{line}"))
    return RowList(rows=tuple(made), digest="chat")


def add(found: Sums, batch: Batch) -> None:
    """Count one micro-batch."""
    size, length = batch.ids.shape
    held = batch.packed
    wanted = targets(
        batch.ids, batch.loss_mask, batch.anchors, batch.shape, 7.0, ends=None if held is None else held.ends
    )
    work = batch.work
    found.micro_batches += 1
    found.tokens += batch.tokens
    found.positions += size * length
    found.blocks += work.blocks
    found.room += batch.anchors.numel()
    found.predicted += int((wanted.weights > 0).sum())
    found.target["useful"] += sum(each * (each + 1) / 2 for each in work.lengths)
    found.target["dense"] += size * length * length
    found.target["causal"] += size * (length * length + length * TILE) / 2
    found.target["tiles"] += document_tiles(batch) * TILE * TILE
    starts = None if held is None else held.starts
    partial, full = tile_table(batch.anchors, batch.shape, 0, starts)
    visited = int(partial.sum() + full.sum()) * TILE * TILE
    found.drafter["useful"] += work.visible
    found.drafter["tiles"] += visited
    found.useful += COST.forward(work.lengths) + drafter_step(SHAPE, work, VOCABULARY)
    whole = BatchWork(lengths=(length,) * size, blocks=batch.anchors.numel(), width=BLOCK, visible=visited)
    found.computed += 2.0 * size * length * COST.matrix_elements + drafter_step(SHAPE, whole, VOCABULARY)


def document_tiles(batch: Batch) -> int:
    """Return the 128 x 128 tiles of the target's causal attention in which a query sees a key of its document."""
    if batch.packed is None:
        each = -(-batch.ids.shape[1] // TILE)
        return batch.ids.shape[0] * each * (each + 1) // 2
    documents = batch.packed.documents.unflatten(1, (-1, TILE))
    low, high = documents.amin(2), documents.amax(2)
    touch = (low[:, :, None] <= high[:, None, :]) & (low[:, None, :] <= high[:, :, None])
    return int(torch.tril(touch).sum())


def told(found: Sums) -> Mapping[str, float]:
    """Return the shares."""
    attention = {way: 4.0 * COST.attention_width * found.target[way] for way in ("dense", "causal", "tiles")}
    return {
        "micro_batches": found.micro_batches,
        "real": found.tokens / found.positions,
        "blocks": found.blocks / found.room,
        "predicted": found.predicted / max(found.blocks * (BLOCK - 1), 1),
        **{f"target, {way}": found.target["useful"] / found.target[way] for way in attention},
        "drafter, tiles": found.drafter["useful"] / found.drafter["tiles"],
        **{f"useful, {way}": found.useful / (found.computed + cost) for way, cost in attention.items()},
    }


def measured(held: RowList, data: DataConfig) -> Mapping[str, float]:
    """Return the shares of one epoch of these rows."""
    plan = Plan(held.lengths, data, 0)
    maker = BatchMaker(held, plan, DrafterConfig(block=BLOCK, anchors=ANCHORS), 0, pin=False)
    found = Sums()
    for number in range(plan.batches_per_epoch):
        add(found, maker.make(plan.batch(number)))
    return told(found)


def main() -> None:
    """Count and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default="128,2000", help="sizes of the data set, divided by commas")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    record: dict[str, Mapping[str, float]] = {}
    full = RowList(
        rows=tuple(Row(ids=[1] * LENGTH, wanted=[0] * 1024 + [1] * 3072, origin="full") for _ in range(32)),
        digest="full",
    )
    record["full rows"] = measured(full, DataConfig(buckets=(LENGTH,), tokens=TOKENS))
    for count in map(int, arguments.rows.split(",")):
        held = rows(count)
        record[f"{count} chat rows, bucket 1,024"] = measured(held, DataConfig(buckets=(1024,), tokens=TOKENS))
        record[f"{count} chat rows, four buckets"] = measured(
            held, DataConfig(buckets=(256, 512, 768, 1024), tokens=TOKENS)
        )
        record[f"{count} chat rows, packed"] = measured(held, DataConfig(buckets=(LENGTH,), tokens=TOKENS, pack=True))
    for name, found in record.items():
        print(name)
        for key, value in found.items():
            print(f"    {key:<16} {value:,.0f}" if key == "micro_batches" else f"    {key:<16} {value:.1%}")
    if arguments.out:
        arguments.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
