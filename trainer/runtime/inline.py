"""One target and one drafter in one thread on one device: nothing waits for anything."""

from collections.abc import Callable, Iterable
from contextlib import closing

import torch

from trainer.assemble import Parts, flops_of
from trainer.compile.state import prepare_thread
from trainer.data.loader import Batch, Loader
from trainer.device import Stall, choose, compiles
from trainer.errors import DeviceMemoryError
from trainer.runtime.cached import drafter_step_of, target_step_of
from trainer.runtime.loop import Alone, DrafterLoop, Exchange, Outcome
from trainer.runtime.session import Session
from trainer.runtime.steps import OpenDoor, TargetStep
from trainer.runtime.warmup_steps import warm_drafter, warm_target
from trainer.target.model import Target
from trainer.target.tensor_parallel import TensorGroup


class InlineSource:
    """Features made on the spot."""

    def __init__(self, loader: Loader, target: TargetStep) -> None:
        """Bind the loader and the target, whose other holders do the same where it is split."""
        self.loader, self.target = loader, target
        self.stall = Stall(target.target.device)
        self._ready: tuple[Batch, torch.Tensor] | None = None

    def take(self) -> tuple[Batch, torch.Tensor]:
        """Return the next batch with its features."""
        ready, self._ready = self._ready, None
        return ready or self._make()

    def prepare(self) -> None:
        """Make the next batch's features now: they need nothing of the drafter."""
        if self._ready is None:
            self._ready = self._make()

    def _make(self) -> tuple[Batch, torch.Tensor]:
        with self.stall.waiting():
            batch = next(self.loader)
            group = self.target.target.group
            batch, features = self._alone(batch) if group is None else self._together(batch, group)
        return batch.bare(), features

    def _alone(self, batch: Batch) -> tuple[Batch, torch.Tensor]:
        batch = batch.to(self.target.target.device)
        return batch, self.target.run(batch)

    def _together(self, batch: Batch, group: TensorGroup) -> tuple[Batch, torch.Tensor]:
        """Run every member's batch, in one order for all of them, and keep what is for this one."""
        target = self.target.target
        features = torch.empty(0)
        for place, wanted in enumerate(group.exchange(batch)):
            if place == group.place:
                batch, features = self._alone(batch)
            elif wanted is not None:
                ids, packed = wanted
                ids = ids.to(target.device, non_blocking=True)
                target.features(ids, None if packed is None else packed.to(target.device))
        return batch, features

    def stop(self) -> None:
        """Stop the loader."""
        self.loader.close()


def run(parts: Parts, session: Session) -> Outcome:
    """Train with one worker of each kind."""
    device = choose(parts.config.run.device)
    prepare_thread()
    outcome, masters, target = learn(parts, session, session.load_target(device), session.numbers(), Alone())
    session.require_kept()
    if not outcome.interrupted:  # SIGTERM leaves seconds: the checkpoint is on disk, the export can follow later
        session.trained(masters, target)
    return outcome


def learn(
    parts: Parts,
    session: Session,
    target: Target,
    numbers: Iterable[int],
    exchange: Exchange,
    devices: int = 1,
    meet: Callable[[], None] = lambda: None,
) -> tuple[Outcome, dict[str, torch.Tensor], Target]:
    """Train a drafter on the batches of these numbers beside `target`, on its device; return the masters and it too.

    `devices` is how many the whole run uses, `meet` waits for the other workers.
    """
    config, device, group = parts.config, target.device, target.group
    gate = OpenDoor()
    target_step = target_step_of(parts, target, gate)
    step = drafter_step_of(parts, device, target.shared, gate)
    maker = parts.maker(pin=device.type == "cuda", cache=target_step.reader)
    if config.run.warm and compiles(config.run.compile, device):
        session.compiling()
        warm_target(target_step, maker, parts.plan.lengths)
        warm_drafter(step, maker, parts.plan.lengths)
    settings = session.settings(device, flops_of(parts, target), devices=devices, lead=session.lead)
    with closing(target_step), Loader(maker, iter(numbers), config.data.prefetch) as loader:
        source = InlineSource(loader, target_step)
        judge = session.quality if session.lead or (group is not None and group.leads) else None

        def quality(done: int) -> None:
            assert judge is not None  # noqa: S101 - else it is not called
            try:
                judge(done, step.model, target)
            except DeviceMemoryError as error:
                if group is not None:
                    raise
                # A new one: the one that was raised holds on to what has filled the device.
                session.unkept = DeviceMemoryError(error.message, error.hint)

        loop = DrafterLoop(
            settings, step, source, exchange,
            stop=lambda: session.stop() or target_step.error is not None or session.unkept is not None,
            report=session.report, quality=quality if judge is not None else None,
        )  # fmt: skip
        session.restore(loop)
        session.begin(meet)
        outcome = loop.run(session.start)
    session.unkept = session.unkept or target_step.error
    session.features(target_step.reader)
    return outcome, step.parameters.masters(), target
