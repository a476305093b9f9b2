"""What one process of a run holds from start to end: where it resumes, whom it reports to, what comes after."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch

from trainer.assemble import Parts
from trainer.data.feature_cache import FeatureReader
from trainer.data.loader import Batch
from trainer.device import matmul_rate, working_dtype
from trainer.drafter.model import Drafter
from trainer.records.metrics import Progress
from trainer.runtime.loop import DrafterLoop, LoopSettings
from trainer.saved.checkpoint import Saved
from trainer.target.model import Target
from trainer.target.tensor_parallel import TensorGroup


@dataclass(slots=True, kw_only=True)
class Session:
    """One process of a run."""

    parts: Parts
    output: Path
    saved: Saved | None
    """Where to resume; None for a fresh start. Drafters read its tensors, and keep no copy."""
    stop: Callable[[], bool]
    report: Callable[[Progress], None]
    after: Callable[[dict[str, torch.Tensor], Target], None]
    """Called in the lead when training is over, with the masters: export and evaluation."""
    journal: Callable[[str, Mapping[str, object]], None]
    parent: Saved | None = None
    """The checkpoint that this run extends, at its own start."""
    quality: Callable[[int, Drafter, Target], None] | None = None
    """Called in the lead between two steps with the steps done: evaluation while it trains."""
    say: Callable[[str], None] = lambda _words: None
    """Shows a person what is under way, in the lead."""
    lead: bool = True
    begun: bool = False
    """Whether all workers have come to their first step: from then on each answers a signal by saving."""
    unkept: BaseException | None = None
    """Why the run has to stop and end with an error once it has saved: features that cannot be kept, say."""
    notes: list[tuple[str, str]] = field(default_factory=list)
    """Lines for the closing summary."""
    _rate: float = field(default=0.0)

    @property
    def start(self) -> int:
        """The optimizer step to start from."""
        return self.saved.step if self.saved is not None else 0

    def numbers(self) -> range:
        """Return the numbers of the batches from the optimizer step to start from to the end."""
        config = self.parts.config
        return range(
            self.offset + self.start * config.micro_batches, self.offset + config.run.steps * config.micro_batches
        )

    @property
    def offset(self) -> int:
        """The number of this run's first batch: the stages before have read what comes before it."""
        ancestry, config = self.parts.ancestry, self.parts.config
        if not ancestry:
            return 0
        # Whole rounds, so that the drafters of a step get batches of one bucket.
        unit = config.micro_batches * config.together
        return -(-int(str(ancestry[-1]["batches"])) // unit) * unit

    def load_target(self, device: torch.device, group: TensorGroup | None = None) -> Target:
        """Return the target on `device`, or this process's share of one that a group holds."""
        self.say(f"loading the target, {self.parts.target_path}")
        return self.parts.load_target(device, group)

    def compiling(self) -> None:
        """Say that the steps of every bucket that has rows are compiled now."""
        lengths = self.parts.plan.lengths
        self.say(f"compiling the steps of {len(lengths)} bucket{'s' if len(lengths) > 1 else ''} (run.warm)")

    def restore(self, loop: DrafterLoop) -> None:
        """Give a drafter's loop the weights and moments it starts from, where they are not new."""
        held = self.saved or self.parent
        if held is not None:
            loop.restore(held.load())

    def settings(
        self, device: torch.device, flops: Callable[[Batch], float], *, devices: int, lead: bool = True
    ) -> LoopSettings:
        """Return the settings of a drafter's loop on `device`; measures the device's matmul rate once."""
        if not self._rate:
            self._rate = matmul_rate(device, working_dtype(device))
        return LoopSettings(
            config=self.parts.config, identity=self.parts.identity(), output=self.output, lead=lead, devices=devices,
            rate=self._rate, flops=flops, offset=self.offset,
            kept=None if self.parts.kept is None else self.parts.kept.tolist(), say=self.say,
        )  # fmt: skip

    def note(self, name: str, text: str) -> None:
        """Add a line to the closing summary."""
        self.notes.append((name, text))

    def worker(self, name: str, *, batches: int, waited: float, seconds: float) -> None:
        """Say how a target worker spent its time."""
        share = waited / max(seconds, 1e-9)
        self.journal("worker", {"worker": name, "batches": batches, "waited": waited, "seconds": seconds})
        self.note(name, f"{batches} batches, {share:.0%} of the time waiting for room")

    def features(self, reader: FeatureReader | None) -> None:
        """Say what was damaged in the feature cache, if anything was."""
        refused = reader.refused if reader is not None else []
        if refused:
            self.journal("features", {"refused": list(refused)})
            self.note("features", f"{len(refused)} damaged in the cache and made again, among them {refused[0]}")

    def begin(self, meet: Callable[[], None] = lambda: None) -> None:
        """Take signals as requests from now on, and `meet` the other workers before the first step."""
        self.stop()
        meet()
        self.begun = True

    def require_kept(self) -> None:
        """Raise why this process had to stop: after all is saved and nobody waits for it."""
        if self.unkept is not None:
            raise self.unkept

    def trained(self, masters: dict[str, torch.Tensor], target: Target) -> None:
        """Hand the trained drafter on."""
        self.after(masters, target)
