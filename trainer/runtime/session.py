"""What one process of a run holds from start to end: where it resumes, whom it reports to, what comes after."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch

from trainer.assemble import Parts
from trainer.checkpoint import Saved
from trainer.data.loader import Batch
from trainer.device import matmul_rate, working_dtype
from trainer.metrics import Progress
from trainer.runtime.loop import LoopSettings
from trainer.target import Target


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
    lead: bool = True
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
        return range(self.start * config.micro_batches, config.run.steps * config.micro_batches)

    def settings(
        self, device: torch.device, flops: Callable[[Batch], float], *, devices: int, lead: bool = True
    ) -> LoopSettings:
        """Return the settings of a drafter's loop on `device`; measures the device's matmul rate once."""
        if not self._rate:
            self._rate = matmul_rate(device, working_dtype(device))
        return LoopSettings(
            config=self.parts.config, identity=self.parts.identity(), output=self.output, lead=lead, devices=devices,
            rate=self._rate, flops=flops,
        )  # fmt: skip

    def note(self, name: str, text: str) -> None:
        """Add a line to the closing summary."""
        self.notes.append((name, text))

    def worker(self, name: str, *, batches: int, waited: float, seconds: float) -> None:
        """Say how a target worker spent its time."""
        share = waited / max(seconds, 1e-9)
        self.journal("worker", {"worker": name, "batches": batches, "waited": waited, "seconds": seconds})
        self.note(name, f"{batches} batches, {share:.0%} of the time waiting for room")

    def trained(self, masters: dict[str, torch.Tensor], target: Target) -> None:
        """Hand the trained drafter on."""
        self.after(masters, target)
