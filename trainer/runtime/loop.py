"""The drafter's loop, the same in every runtime: what differs is where features come from and who else learns."""

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch

from trainer.compile.state import compile_counts, require_sound
from trainer.data.loader import Batch
from trainer.device import Stall, read_memory, wait_for
from trainer.errors import NonFiniteError
from trainer.records.metrics import Flatness, Progress, Sums
from trainer.records.profiler import ProfilerWindow
from trainer.runtime.steps import DrafterStep
from trainer.saved import checkpoint
from trainer.settings.config import TrainConfig
from trainer.step.optim import Optimizer, learning_rate

QUIET_SECONDS = 5.0
"""A first step that takes longer is told."""


class Source(Protocol):
    """Where a drafter's micro-batches come from, in the order of its plan."""

    stall: Stall
    """The device's time spent waiting for features."""

    def take(self) -> tuple[Batch, torch.Tensor]:
        """Return the next batch and its features, both on the drafter's device."""

    def prepare(self) -> None:
        """Begin the next batch's features where that can be done while the drafters exchange gradients."""

    def stop(self) -> None:
        """Tell the workers behind it that no more will be taken."""


class Exchange(Protocol):
    """What the drafters of a run agree on."""

    def pool(self, weight: float, stop: bool) -> tuple[float, bool]:  # noqa: FBT001
        """Return the sum of the weights and whether any drafter was asked to stop."""

    def reduce(self, buffers: list[torch.Tensor]) -> Callable[[], None]:
        """Begin to sum each buffer over all drafters, in place; they hold the sums once the returned call is done."""

    def total(self, vector: torch.Tensor) -> torch.Tensor:
        """Return the sum of a small vector over all drafters, on the CPU."""


class Alone:
    """The exchange of a single drafter."""

    def pool(self, weight: float, stop: bool) -> tuple[float, bool]:  # noqa: FBT001
        """Return what came in."""
        return weight, stop

    def reduce(self, buffers: list[torch.Tensor]) -> Callable[[], None]:  # noqa: ARG002
        """Leave the buffers as they are."""
        return _done

    def total(self, vector: torch.Tensor) -> torch.Tensor:
        """Return the vector."""
        return vector.cpu()


def _done() -> None:
    """Nothing is left to wait for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a loop ended."""

    step: int
    """Optimizer steps done over all runs of this output folder."""
    interrupted: bool
    last: Progress | None
    first: Progress | None
    growth: float
    """Growth of the memory high-water after the first log line, as a fraction."""
    compilations: int
    """Compilations after the warm-up."""
    breaks: int
    """Graph breaks of this process: places where compiled code falls back to Python."""
    tokens_per_second: float
    """Over the steady log lines: the first holds what is done once, and the last a step that makes no features for
    another one. Of two lines the second, of one that."""
    utilisation: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopSettings:
    """What a loop needs to know besides its parts."""

    config: TrainConfig
    identity: dict[str, object]
    output: Path
    lead: bool
    """Whether this drafter writes the checkpoints and the log."""
    devices: int
    """Devices the whole run uses."""
    rate: float
    """Measured matmul FLOP/s of one device."""
    flops: Callable[[Batch], float]
    """Useful FLOPs of a batch, target and drafter."""
    offset: int = 0
    """The number of the run's first batch."""
    kept: list[int] | None = None
    """The tokens of a reduced vocabulary."""
    say: Callable[[str], None] = lambda _words: None
    """Shows a person what is under way."""


class DrafterLoop:
    """Runs optimizer steps until the end, a stop request or an error."""

    def __init__(
        self,
        settings: LoopSettings,
        step: DrafterStep,
        source: Source,
        exchange: Exchange,
        *,
        stop: Callable[[], bool],
        report: Callable[[Progress], None],
        quality: Callable[[int], None] | None = None,
    ) -> None:
        """Bind the parts; `stop` is asked once a step, `report` gets each log line of the lead.

        `quality` is called with the steps done every run.evaluate_every steps.
        """
        self.settings, self.step, self.source, self.exchange = settings, step, source, exchange
        self.config = settings.config
        self._stop, self._report, self._quality = stop, report, quality
        self._profiler = ProfilerWindow(self.config.run.profile, settings.output) if settings.lead else None
        self.optimizer = Optimizer(step.parameters, self.config.optim, self.config.run.steps)
        self._exchange_stall = Stall(step.device)
        self._flat = Flatness()
        self._norm: torch.Tensor | None = None
        self._lines: list[Progress] = []
        self._work: list[tuple[float, float, float]] = []
        """Tokens, FLOPs and seconds of each log line."""
        self._compiled_before = 0

    def restore(self, saved: checkpoint.Checkpoint) -> None:
        """Take weights and moments from a checkpoint."""
        self.step.parameters.load(saved.masters)
        self.optimizer.load(saved.moments, saved.optimizer_steps)

    def run(self, start: int) -> Outcome:
        """Run from optimizer step `start`; the checkpoint of the last step done is on disk when this returns."""
        counts = compile_counts()
        self._compiled_before = counts.graphs + counts.events
        sums = Sums(self.config.drafter.block, self.step.device)
        read_memory(self.step.device)
        done, interrupted = start, False
        while done < self.config.run.steps and not interrupted:
            with self._profiler.step(done + 1) if self._profiler else nullcontext():
                interrupted = self._one_step(done, sums)
            done += 1
            took = time.perf_counter() - sums.started
            if self.settings.lead and done == start + 1 and took > QUIET_SECONDS:
                self.settings.say(f"the first step took {took:.0f} s; a line every {self.config.run.log_every} steps")
            last = done == self.config.run.steps or interrupted
            every = self.config.run.save_every
            often = self.config.run.evaluate_every
            # After the last step comes the closing evaluation.
            judged = bool(often) and done % often == 0 and done < self.config.run.steps
            # Of those that hold a target together, one without room for an evaluation cannot tell the others, which
            # wait for it in the middle of a pass: the run ends there.
            risky = judged and self.config.target.tensor_parallel > 1
            saves = interrupted or risky or (bool(every) and (last or done % every == 0))
            # A log line looks for NaN: a checkpoint never replaces a good one with weights nobody has looked at.
            progress = None
            if last or saves or judged or done % self.config.run.log_every == 0:
                sums, progress = self._log(done, sums)
            if saves:
                self._save(done)
            # Only now: a log that cannot be written is no reason to lose a checkpoint.
            if progress is not None and self.settings.lead:
                self._report(progress)
            if judged and self._quality is not None and not interrupted:
                if self._profiler is not None:
                    # An evaluation is not what was to be recorded, and its trace would fill the memory.
                    self._profiler.close()
                self._quality(done)
                # Neither the time nor the memory was spent on training.
                sums.restart()
                read_memory(self.step.device)
        self.source.stop()
        if self._profiler is not None:
            self._profiler.close()
        return self._outcome(done, interrupted=interrupted)

    def _one_step(self, index: int, sums: Sums) -> bool:
        weight = 0.0
        for _ in range(self.config.optim.accumulate):
            batch, features = self.source.take()
            sums.add(batch, self.step.run(batch, features), self.settings.flops(batch))
            del features
            weight += batch.weight
        if self.step.device.type == "cpu":
            # Looking costs nothing here; on CUDA it would stall the queue, so there it waits for the log line.
            sums.require_finite(index + 1)
        with self._exchange_stall.waiting():
            pooled, stop = self.exchange.pool(weight, self._stop())
            wait = self.exchange.reduce(self.step.parameters.gradients())
        if not stop and index + 1 < self.config.run.steps:
            self.source.prepare()
        with self._exchange_stall.waiting():
            wait()
        self._norm = self.optimizer.step(index, max(pooled, 1e-9))
        return stop

    def _log(self, done: int, sums: Sums) -> tuple[Sums, Progress]:
        sums.require_finite(done)
        norm = float(self._norm) if self._norm is not None else 0.0
        if norm != norm or norm == float("inf"):  # noqa: PLR0124 - the test for NaN
            raise NonFiniteError(
                f"step {done}: the gradient's norm is {norm} and every loss of this drafter is finite",
                "resume from the last checkpoint with a lower optim.learning_rate; see what the other drafters say",
            )
        # Behind the gate: while another thread traces, its state is not damage.
        with self.step.gate.look():
            require_sound()
        wait_for(self.step.device)
        seconds = time.perf_counter() - sums.started
        work = torch.tensor([sums.tokens, sums.positions, sums.flops], dtype=torch.float64, device=sums.vector.device)
        total = self.exchange.total(torch.cat([sums.vector, work]))
        tokens, positions, flops = total[-3:].tolist()
        loss, accuracy, by_position, run_length = sums.read(total[:-3])
        memory = read_memory(self.step.device)
        self._flat.add(memory, sums.shapes)
        counts = compile_counts()
        progress = Progress(
            step=done, loss=loss, accuracy=accuracy, by_position=by_position, run_length=run_length,
            gradient_norm=norm, learning_rate=learning_rate(self.config.optim, done - 1, self.config.run.steps),
            tokens_per_second=tokens / seconds, positions_per_second=positions / seconds,
            flops=flops, utilisation=flops / seconds / (self.settings.rate * self.settings.devices), seconds=seconds,
            waits={
                "features": self.source.stall.read() / seconds,
                "exchange": self._exchange_stall.read() / seconds,
            },
            memory=memory, compilations=counts.graphs + counts.events - self._compiled_before,
        )  # fmt: skip
        self._lines.append(progress)
        self._work.append((tokens, flops, seconds))
        return Sums(self.config.drafter.block, self.step.device), progress

    def _save(self, done: int) -> None:
        if not self.settings.lead:
            return
        moments, taken = self.optimizer.state()
        saved = checkpoint.Checkpoint(
            step=done, batches=self.settings.offset + done * self.config.micro_batches, optimizer_steps=taken,
            identity=self.settings.identity, masters=self.step.parameters.masters(), moments=moments,
            kept=self.settings.kept,
        )  # fmt: skip
        checkpoint.save(self.settings.output / "checkpoints", saved, self.config.run.keep)

    def _outcome(self, done: int, *, interrupted: bool) -> Outcome:
        work = self._work[1:-1] or self._work[1:] or self._work or [(0.0, 0.0, 1.0)]
        tokens, flops, seconds = (sum(values) for values in zip(*work, strict=True))
        last = self._lines[-1] if self._lines else None
        return Outcome(
            step=done, interrupted=interrupted, first=self._lines[0] if self._lines else None, last=last,
            growth=self._flat.growth, compilations=last.compilations if last else 0,
            breaks=compile_counts().breaks, tokens_per_second=tokens / seconds,
            utilisation=flops / seconds / (self.settings.rate * self.settings.devices),
        )  # fmt: skip
