"""The two halves of a step on one device, timed for the planner."""

import statistics
import time
from collections.abc import Callable

import torch

from trainer.assemble import assemble
from trainer.config import TrainConfig
from trainer.device import choose, free_bytes, read_memory, wait_for
from trainer.optim import Optimizer
from trainer.plan import Measured
from trainer.runtime.cached import drafter_step_of
from trainer.runtime.compile_state import prepare_thread
from trainer.runtime.steps import OpenDoor, TargetStep

_WARM, _REPEATS = 2, 4


def device_count(config: TrainConfig) -> int:
    """Return how many devices the layouts are for: this host's GPUs, or as many CPU workers as were asked for."""
    if choose(config.run.device).type == "cuda":
        return torch.cuda.device_count()
    return max(config.topology.drafters, config.topology.targets)


def measure(config: TrainConfig) -> Measured:
    """Run both halves at the longest bucket, on random features; nothing is kept.

    A device that cannot hold both measures nothing: torch's out-of-memory error says what was asked for.
    """
    prepare_thread()
    parts = assemble(config)
    device = choose(config.run.device)
    read_memory(device)
    room = (free_bytes(device) + read_memory(device).now) / 1e9
    target = parts.load_target(device)
    held = read_memory(device).now / 1e9
    target_step = TargetStep(target, config.run, OpenDoor())
    step = drafter_step_of(parts, device, target.shared, OpenDoor())
    optimizer = Optimizer(step.parameters, config.optim, 100)
    batch = parts.maker(pin=False).blank(config.data.buckets[-1]).to(device)
    features = target_step.run(batch)

    def learn() -> None:
        step.run(batch, features)
        optimizer.step(0, max(batch.weight, 1.0))

    seconds = [_timed(work, device) for work in (lambda: target_step.run(batch), learn)]
    return Measured(
        tokens=batch.ids.numel(), target_seconds=seconds[0], drafter_seconds=seconds[1], target_gb=held,
        both_gb=read_memory(device).peak / 1e9, device_gb=room,
    )  # fmt: skip


def _timed(work: Callable[[], object], device: torch.device) -> float:
    """Return the median seconds of `work`, after rounds that compile."""
    taken = []
    for _ in range(_WARM + _REPEATS):
        wait_for(device)
        started = time.perf_counter()
        work()
        wait_for(device)
        taken.append(time.perf_counter() - started)
    return statistics.median(taken[_WARM:])
