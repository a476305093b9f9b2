"""One target and one drafter in one thread on one device: nothing waits for anything."""

import time
from collections.abc import Iterator

import torch

from trainer.assemble import Parts, flops_of
from trainer.config import TrainConfig
from trainer.data.loader import Batch, Loader
from trainer.device import choose, compiles
from trainer.runtime.compile_state import prepare_thread
from trainer.runtime.loop import Alone, DrafterLoop, Outcome
from trainer.runtime.session import Session
from trainer.runtime.steps import DrafterStep, OpenDoor, TargetStep
from trainer.runtime.warm import warm_drafter, warm_target


class InlineSource:
    """Features made on the spot."""

    def __init__(self, loader: Loader, target: TargetStep) -> None:
        """Bind the loader and the target."""
        self.loader, self.target = loader, target
        self.waited = 0.0

    def take(self) -> tuple[Batch, torch.Tensor]:
        """Return the next batch with its features."""
        before = time.perf_counter()
        held = next(self.loader)
        self.waited += time.perf_counter() - before
        batch = held.to(self.target.target.device)
        return batch, self.target.run(batch)

    def stop(self) -> None:
        """Stop the loader."""
        self.loader.close()


def run(parts: Parts, session: Session) -> Outcome:
    """Train with one worker of each kind."""
    config = parts.config
    device = choose(config.run.device)
    prepare_thread()
    target = parts.load_target(device)
    gate = OpenDoor()
    target_step = TargetStep(target, config.run, gate)
    step = DrafterStep(parts.drafter(device), target.shared, config.drafter, parts.mask_token, config.run, gate)
    maker = parts.maker(pin=device.type == "cuda")
    if config.run.warm and compiles(config.run.compile, device):
        warm_target(target_step, maker, config.data.buckets)
        warm_drafter(step, maker, config.data.buckets)
    settings = session.settings(device, flops_of(parts, target), devices=1)
    with Loader(maker, numbers(config, session.start), config.data.prefetch) as loader:
        source = InlineSource(loader, target_step)
        loop = DrafterLoop(settings, step, source, Alone(), stop=session.stop, report=session.report)
        if session.saved is not None:
            loop.restore(session.saved)
        outcome = loop.run(session.start)
    if not outcome.interrupted:  # SIGTERM leaves seconds: the checkpoint is on disk, the export can follow later
        session.trained(step.parameters.masters(), target)
    return outcome


def numbers(config: TrainConfig, start: int) -> Iterator[int]:
    """Return the numbers of the batches from optimizer step `start` to the end."""
    return iter(range(start * config.micro_batches, config.run.steps * config.micro_batches))
