"""All workers as threads of one process, safe only because every compiled step goes through the gate.

This is the topology that deadlocks or falls back without the gate (see compile_gate). Exchanges and hand-overs
happen between steps, never inside one: a thread that waits for another must not hold the gate.
"""

import threading
import time
from collections.abc import Callable, Iterator

import torch

from trainer.assemble import Parts, flops_of
from trainer.compile.state import prepare_thread, traces_beside_eager_code
from trainer.data.loader import Batch, Loader
from trainer.device import Stall, choose, compiles
from trainer.errors import ConfigError
from trainer.runtime.cached import drafter_step_of, target_step_of
from trainer.runtime.channels import Channel, Crew, ExchangeTable, Meeting, ThreadExchange
from trainer.runtime.compile_gate import CompileGate
from trainer.runtime.loop import DrafterLoop, LoopSettings, Outcome
from trainer.runtime.session import Session
from trainer.runtime.steps import DrafterStep, TargetStep  # noqa: TC001 - as the other types here
from trainer.runtime.warmup_steps import warm_drafter, warm_target
from trainer.settings.topology import Topology, topology
from trainer.target.model import SharedWeights, Target

Parcel = tuple[Batch, torch.Tensor]


class ChannelSource:
    """A drafter's end of the channels from all targets."""

    def __init__(
        self, shape: Topology, numbers: Iterator[int], channels: list[Channel[Parcel]], device: torch.device
    ) -> None:
        """Bind the channels, one a target."""
        self._shape, self._numbers, self._channels, self._device = shape, numbers, channels, device
        self.stall = Stall(device)

    def take(self) -> Parcel:
        """Return the next batch of this drafter's plan."""
        number = next(self._numbers)
        with self.stall.waiting():
            batch, features = self._channels[self._shape.target_of(number)].get()
            if batch.index != number:
                raise AssertionError(f"batch {batch.index} came where {number} was expected")
            return batch.to(self._device), features.to(self._device, non_blocking=True)

    def prepare(self) -> None:
        """Do nothing: the targets are ahead already."""

    def stop(self) -> None:
        """Close the channels: targets stop making features nobody will take."""
        for channel in self._channels:
            channel.close()


class ThreadedRun:
    """The threads of a run and what they share."""

    def __init__(self, parts: Parts, session: Session) -> None:
        """Load the models; no thread is started yet."""
        self.parts, self.session = parts, session
        self.config = parts.config
        self.shape = topology(self.config)
        self.crew = Crew()
        self.gate = CompileGate()
        room = self.config.topology.queue
        self.channels = [
            [Channel[Parcel](room, self.crew) for _ in range(self.shape.drafters)] for _ in range(self.shape.targets)
        ]
        self.table = ExchangeTable(self.shape.drafters, self.crew)
        self.warmed = Meeting(self.shape.world, self.crew)
        self.devices = [choose(self.config.run.device, worker) for worker in range(self.shape.world)]
        compiled = any(compiles(self.config.run.compile, device) for device in self.devices)
        if compiled and not traces_beside_eager_code():
            raise ConfigError(
                f"topology.runtime: threads with compiled code, but this torch {torch.__version__} was built for CUDA"
                " and sees no CUDA device: it crashes when one thread traces while another computes",
                "use --runtime processes or inline, --compile off, or a CPU build of torch",
            )
        models: dict[torch.device, Target] = {}
        for device in self.devices[: self.shape.targets]:
            models.setdefault(device, session.load_target(device))
        # Threads on one device share its weights, but each has its own hooks and trunk.
        self.targets = [
            Target(models[device].model, parts.layer_ids, fp8=self.config.target.fp8, last=parts.objective.teacher)
            for device in self.devices[: self.shape.targets]
        ]
        if self.config.data.pack:
            for target in self.targets:
                target.pack_rows()
        self.features: list[TargetStep] = []
        self.outcomes: list[Outcome | None] = [None] * self.shape.drafters
        self.steps: list[DrafterStep | None] = [None] * self.shape.drafters

    def target(self, index: int) -> None:
        """Be target `index`: make features until the plan ends or nobody takes them."""
        device = self.devices[index]
        step = target_step_of(self.parts, self.targets[index], self.gate)
        self.features.append(step)
        maker = self.parts.maker(pin=device.type == "cuda", cache=step.reader)
        if self.config.run.warm and compiles(self.config.run.compile, device):
            warm_target(step, maker, self.parts.plan.lengths)
        self.warmed.wait()
        mine = (number for number in self.session.numbers() if self.shape.target_of(number) == index)
        made, stall, started = 0, Stall(device), time.perf_counter()
        with Loader(maker, mine, self.config.data.prefetch) as loader:
            for held in loader:
                batch = held.to(device)
                features = step.run(batch)
                with stall.waiting():
                    taken = self.channels[index][self.shape.drafter_of(batch.index)].put((batch.bare(), features))
                if not taken:
                    break
                made += 1
        seconds = time.perf_counter() - started
        self.session.worker(f"target-{index}", batches=made, waited=stall.read(), seconds=seconds)

    def drafter(self, index: int) -> None:
        """Be drafter `index`."""
        device = self.devices[self.shape.targets + index]
        step = drafter_step_of(self.parts, device, self._shared(device), self.gate)
        self.steps[index] = step
        if self.config.run.warm and step.compiled:
            warm_drafter(step, self.parts.maker(pin=False), self.parts.plan.lengths)
        source = ChannelSource(
            self.shape, (number for number in self.session.numbers() if self.shape.drafter_of(number) == index),
            [self.channels[target][index] for target in range(self.shape.targets)], device,
        )  # fmt: skip
        loop = DrafterLoop(
            self._settings(device, index), step, source, ThreadExchange(index, self.table), stop=self._stop,
            report=self.session.report,
        )  # fmt: skip
        self.session.restore(loop)
        # All of them, targets too: what is compiled from here on is counted against the run.
        self.warmed.wait()
        self.session.begin()
        self.outcomes[index] = loop.run(self.session.start)

    def _stop(self) -> bool:
        return self.session.stop() or any(step.error is not None for step in self.features)

    def _settings(self, device: torch.device, index: int) -> LoopSettings:
        flops = flops_of(self.parts, self.targets[0])
        return self.session.settings(device, flops, devices=len(set(self.devices)), lead=index == 0)

    def _shared(self, device: torch.device) -> SharedWeights:
        near = next((target for target in self.targets if target.device == device), self.targets[0])
        return SharedWeights(embedding=near.shared.embedding.to(device), head=near.shared.head.to(device))

    def go(self) -> Outcome:
        """Start all threads and return the lead's outcome; raises the first error of any of them."""
        jobs = [(self.target, index, f"target-{index}") for index in range(self.shape.targets)]
        jobs += [(self.drafter, index, f"drafter-{index}") for index in range(self.shape.drafters)]
        threads = [
            threading.Thread(target=self._guarded, args=(work, index), name=name, daemon=True)
            for work, index, name in jobs
        ]
        # The rate is measured before anybody works, or it would measure their load.
        self._settings(self.devices[self.shape.targets], 0)
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                while thread.is_alive():
                    # A join without a limit would keep signal handlers from running.
                    thread.join(0.2)
        except BaseException as error:
            # Those that wait for each other end; one that computes is ended with the process.
            self.crew.fail(error)
            raise
        for step in self.features:
            step.close()
        if self.crew.error is not None:
            raise self.crew.error
        for step in self.features:
            self.session.unkept = self.session.unkept or step.error
            self.session.features(step.reader)
        # Only now that the drafters have saved: an error of the cache is no reason to lose their steps.
        self.session.require_kept()
        lead = self.outcomes[0]
        if lead is None:
            raise AssertionError("the lead drafter left neither an outcome nor an error")
        return lead

    def _guarded(self, work: Callable[[int], None], index: int) -> None:
        try:
            device = self.devices[index if work == self.target else self.shape.targets + index]
            if device.type == "cuda":
                torch.cuda.set_device(device)
            prepare_thread()
            work(index)
        except BaseException as error:  # noqa: BLE001 - the main thread raises it
            self.crew.fail(error)


def run(parts: Parts, session: Session) -> Outcome:
    """Train with all workers as threads of this process."""
    threaded = ThreadedRun(parts, session)
    outcome = threaded.go()
    lead = threaded.steps[0]
    if lead is None:
        raise AssertionError("the lead drafter has no step")
    stats = threaded.gate.stats
    session.note("gate", f"{stats.alone} steps alone, {stats.together} together, {stats.demoted} demoted")
    if not outcome.interrupted:
        session.trained(lead.parameters.masters(), threaded.targets[0])
    return outcome
