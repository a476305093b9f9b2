"""One target and one drafter in one thread on one device: nothing waits for anything."""

import torch

from trainer.assemble import Parts, flops_of
from trainer.data.loader import Batch, Loader
from trainer.device import Stall, choose, compiles
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
        self.stall = Stall(target.target.device)

    def take(self) -> tuple[Batch, torch.Tensor]:
        """Return the next batch with its features."""
        with self.stall.waiting():
            batch = next(self.loader).to(self.target.target.device)
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
    with Loader(maker, iter(session.numbers()), config.data.prefetch) as loader:
        source = InlineSource(loader, target_step)
        loop = DrafterLoop(settings, step, source, Alone(), stop=session.stop, report=session.report)
        if session.saved is not None:
            loop.restore(session.saved.load())
        outcome = loop.run(session.start)
    if not outcome.interrupted:  # SIGTERM leaves seconds: the checkpoint is on disk, the export can follow later
        session.trained(step.parameters.masters(), target)
    return outcome
