"""The two halves of a step on one device, timed for the planner."""

import statistics
import time
from collections.abc import Callable

import torch
from transformers.utils import logging as transformers_logging

from trainer.assemble import Parts, assemble
from trainer.compile.state import prepare_thread
from trainer.device import choose, free_bytes, read_memory, wait_for, working_dtype
from trainer.drafter.model import Drafter
from trainer.errors import TrainerError
from trainer.planning.layouts import Measured, Weights
from trainer.runtime.cached import drafter_step_of
from trainer.runtime.steps import OpenDoor, TargetStep
from trainer.settings.config import TrainConfig
from trainer.step.optim import Optimizer
from trainer.target.shared_weights import shared_bytes
from trainer.target.tensor_parallel import weight_bytes
from trainer.writing import say

_WARM, _REPEATS = 2, 4


def device_count(config: TrainConfig) -> int:
    """Return how many devices the layouts are for: this host's GPUs, or as many CPU workers as were asked for."""
    if choose(config.run.device).type == "cuda":
        return torch.cuda.device_count()
    return max(config.topology.drafters, config.topology.targets)


def measure(config: TrainConfig, devices: int) -> Measured | Weights:
    """Run both halves at the longest bucket, on random features; nothing is kept.

    A device that cannot hold both measures nothing: what the weights take on each of `devices` is returned.
    """
    transformers_logging.disable_progress_bar()
    prepare_thread()
    parts = assemble(config)
    device = choose(config.run.device)
    read_memory(device)
    room = (free_bytes(device) + read_memory(device).now) / 1e9
    held = weights(parts, device, devices, room)
    if held.target_gb + held.drafter_gb > room:
        return held
    try:
        return _measured(parts, device, held)
    except torch.OutOfMemoryError as error:
        say(f"target and drafter do not fit on the device: {str(error).splitlines()[0]}")
        return held


def weights(parts: Parts, device: torch.device, devices: int, room: float) -> Weights:
    """Return what the weights take on one device, from the configs alone; `room` is what is free on it, in GB."""
    dtype, splits = working_dtype(device), parts.fp8_splits()
    whole = weight_bytes(parts.target_path, 1, dtype.itemsize)
    if "target.fp8" in splits:
        whole += splits["target.fp8"].layers
    shares, unsplit = [], ""
    for size in range(2, devices + 1):
        try:
            shares.append((size, weight_bytes(parts.target_path, size, dtype.itemsize) / 1e9))
        except TrainerError as error:
            unsplit = error.message
    with torch.device("meta"):
        parameters = sum(each.numel() for each in Drafter(parts.shape).parameters())
    # fp32 masters, gradient sums and two moments; the working weights are the masters where they are fp32 too.
    drafter = parameters * (16 + (dtype.itemsize if dtype != torch.float32 else 0))
    if parts.kept is not None:
        # A head of the kept tokens, and the place of each of the target's tokens among them.
        drafter += parts.vocabulary * parts.shape.hidden * dtype.itemsize + 8 * parts.target_config.vocab_size
    if "drafter.fp8" in splits:
        drafter += splits["drafter.fp8"].head
    decoding = parameters * dtype.itemsize if parts.config.run.evaluate else 0
    return Weights(
        target_gb=whole / 1e9, shares=tuple(shares), unsplit="" if shares else unsplit, drafter_gb=drafter / 1e9,
        shared_gb=shared_bytes(parts.target_path, dtype.itemsize) / 1e9,
        end_gb=(whole + 4 * parameters + decoding) / 1e9, device_gb=room,
    )  # fmt: skip


def _measured(parts: Parts, device: torch.device, weights: Weights) -> Measured:
    config = parts.config
    target = parts.load_target(device)
    target_step = TargetStep(target, config.run, OpenDoor())
    step = drafter_step_of(parts, device, target.shared, OpenDoor())
    optimizer = Optimizer(step.parameters, config.optim, 100)
    batch = parts.maker(pin=False).blank(config.data.buckets[-1]).to(device)
    features = target_step.run(batch)
    alone = read_memory(device).peak / 1e9

    def learn() -> None:
        step.run(batch, features)
        optimizer.step(0, max(batch.weight, 1.0))

    seconds = [_timed(work, device) for work in (lambda: target_step.run(batch), learn)]
    both = max(alone, read_memory(device).peak / 1e9)
    # A drafter away from its target has the two shared weights in its place.
    apart = max(alone, both - weights.target_gb + weights.shared_gb, weights.end_gb)
    return Measured(
        tokens=batch.ids.numel(), target_seconds=seconds[0], drafter_seconds=seconds[1], target_gb=alone,
        both_gb=both, apart_gb=apart, device_gb=weights.device_gb,
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
