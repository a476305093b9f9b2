"""What `python -m trainer.warmup` does once the gate has let it through: the only part that imports torch."""

from collections.abc import Callable

import torch
from transformers.utils import logging as transformers_logging

from trainer.assemble import Parts, assemble
from trainer.compile.state import compile_counts, prepare_thread, require_sound
from trainer.device import choose, compiles
from trainer.runtime.cached import drafter_step_of
from trainer.runtime.steps import OpenDoor, TargetStep
from trainer.runtime.warmup_steps import warm_drafter, warm_target
from trainer.settings.config import TrainConfig
from trainer.settings.topology import topology

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
    workers = list(range(config.workers)) if rank is None else [rank]
    rounds = [work for worker in workers if (work := _worker(parts, worker)) is not None]
    for work in rounds:
        work()
    first = compile_counts()
    # Anything compiled in this second round would be compiled in a running step too.
    for work in rounds:
        work()
    again = compile_counts().since(first)
    require_sound()
    device = choose(config.run.device, rank or 0)
    return {
        "workers": workers, "buckets": list(_lengths(parts)), "device": str(device),
        "compiles": compiles(config.run.compile, device),
        "graphs": first.graphs, "compilations": first.events, "graph_breaks": first.breaks,
        "second_round": again.graphs + again.events, "counters": _counters(),
    }  # fmt: skip


def _worker(parts: Parts, rank: int) -> Callable[[], None] | None:
    """Return what warms the worker of this rank, or None where its device does not compile."""
    config, shape = parts.config, topology(parts.config)
    role = shape.role(rank)
    # Threads put the targets first; see ThreadedRun.
    place = rank if config.launched else role.index + (shape.targets if role.kind == "drafter" else 0)
    device = choose(config.run.device, place)
    if not compiles(config.run.compile, device):
        return None
    if device.type == "cuda":
        torch.cuda.set_device(device)
    maker, buckets = parts.maker(pin=False), _lengths(parts)
    together = config.runtime == "data-parallel"
    target = parts.load_target(device) if together or role.kind == "target" else None
    work: list[Callable[[], None]] = []
    if target is not None:
        features = TargetStep(target, config.run, OpenDoor())
        work.append(lambda: warm_target(features, maker, buckets))
    if role.kind == "drafter":
        shared = target.shared if target is not None else parts.load_shared(device)
        # As the run makes it: the objective and the vocabulary are part of what is compiled.
        step = drafter_step_of(parts, device, shared, OpenDoor())
        work.append(lambda: warm_drafter(step, maker, buckets))

    def both() -> None:
        for each in work:
            each()

    return both


def _lengths(parts: Parts) -> tuple[int, ...]:
    """Return the lengths of the run's batches; of a target without its rows, those that the config allows."""
    config = parts.config
    if config.data.path or not config.target.path:
        return parts.plan.lengths
    return config.data.buckets[-1:] if config.data.pack else config.data.buckets


def _counters() -> dict[str, int]:
    from torch._dynamo.utils import counters  # noqa: PLC0415

    return {name: int(counters[group][name]) for group, name in COUNTERS}
