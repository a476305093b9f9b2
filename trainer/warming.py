"""What `python -m trainer.warmup` does once the gate has let it through: the only part that imports torch."""

import torch
from transformers.utils import logging as transformers_logging

from trainer.assemble import Parts, assemble
from trainer.config import TrainConfig
from trainer.device import choose, compiles
from trainer.runtime.compile_state import compile_counts, prepare_thread, require_sound
from trainer.runtime.steps import DrafterStep, OpenDoor, TargetStep
from trainer.runtime.warm import warm_drafter, warm_target
from trainer.topology import topology

COUNTERS = (
    ("inductor", "fxgraph_cache_hit"), ("inductor", "fxgraph_cache_miss"), ("inductor", "fxgraph_cache_bypass"),
    ("aot_autograd", "autograd_cache_hit"), ("aot_autograd", "autograd_cache_miss"),
    ("aot_autograd", "autograd_cache_bypass"),
)  # fmt: skip


def warm(config: TrainConfig, rank: int | None) -> dict[str, object]:
    """Warm the worker of this rank, or every worker when None, and return what was compiled."""
    transformers_logging.disable_progress_bar()
    if config.run.threads:
        torch.set_num_threads(config.run.threads)
    prepare_thread()
    parts = assemble(config)
    workers = range(topology(config.topology).world) if rank is None else [rank]
    for worker in workers:
        _worker(parts, worker)
    first = compile_counts()
    # Anything compiled in this second round would be compiled in a running step too.
    for worker in workers:
        _worker(parts, worker)
    again = compile_counts().since(first)
    require_sound()
    device = choose(config.run.device, rank or 0)
    return {
        "workers": list(workers), "device": str(device), "compiles": compiles(config.run.compile, device),
        "graphs": first.graphs, "compilations": first.events, "graph_breaks": first.breaks,
        "second_round": again.graphs + again.events, "counters": _counters(),
    }  # fmt: skip


def _worker(parts: Parts, rank: int) -> None:
    config, shape = parts.config, topology(parts.config.topology)
    # Threads put the targets first; see ThreadedRun.
    role = shape.role(rank)
    place = rank if config.runtime == "processes" else role.index + (shape.targets if role.kind == "drafter" else 0)
    device = choose(config.run.device, place)
    if not compiles(config.run.compile, device):
        return
    if device.type == "cuda":
        torch.cuda.set_device(device)
    maker = parts.maker(pin=False)
    if role.kind == "target":
        warm_target(TargetStep(parts.load_target(device), config.run, OpenDoor()), maker, config.data.buckets)
        return
    step = DrafterStep(
        parts.drafter(device), parts.load_shared(device), config.drafter, parts.mask_token, config.run, OpenDoor()
    )
    warm_drafter(step, maker, config.data.buckets)


def _counters() -> dict[str, int]:
    from torch._dynamo.utils import counters  # noqa: PLC0415

    return {name: int(counters[group][name]) for group, name in COUNTERS}
