"""What a run says about itself while it runs: sums on the device, lines in a file, flatness at the end.

Nothing here waits for the device between two log lines.
"""

import json
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import torch

from trainer.data.loader import Batch
from trainer.device import Memory
from trainer.errors import NonFiniteError, OutputError
from trainer.step.loss import LossParts
from trainer.writing import Lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """One log line: means over the steps since the last one."""

    step: int
    loss: float
    accuracy: float
    by_position: tuple[float, ...]
    """Accuracy at block positions 1..K-1."""
    run_length: float
    """Mean leading positions right in a block, plus one: what acceptance would be if every block were decoded."""
    gradient_norm: float
    learning_rate: float
    tokens_per_second: float
    """Real context tokens consumed by all drafters."""
    positions_per_second: float
    """The same with padding."""
    flops: float
    """Useful FLOPs since the last line, of all devices: present blocks and real tokens, not what padding costs."""
    utilisation: float
    """MFU: useful FLOP/s over the measured matmul rate of the devices in use."""
    seconds: float
    waits: Mapping[str, float]
    """Share of the time for which the device waited: for features, for the other drafters."""
    memory: Memory
    compilations: int
    """Compilations since the run's warm-up ended, all of this process."""

    def line(self) -> dict[str, object]:
        """Return the JSON object of this line."""
        return {
            "step": self.step, "loss": self.loss, "accuracy": self.accuracy, "by_position": list(self.by_position),
            "run_length": self.run_length, "gradient_norm": self.gradient_norm, "learning_rate": self.learning_rate,
            "tokens_per_second": self.tokens_per_second, "positions_per_second": self.positions_per_second,
            "flops": self.flops, "utilisation": self.utilisation, "seconds": self.seconds, "waits": dict(self.waits),
            "memory_now": self.memory.now, "memory_peak": self.memory.peak, "compilations": self.compilations,
        }  # fmt: skip


class Sums:
    """Loss parts added up on the device over several micro-batches, and which batches they came from."""

    def __init__(self, width: int, device: torch.device) -> None:
        """Start empty for blocks of `width` positions."""
        self._width = width - 1
        self._vector = torch.zeros(4 + 2 * self._width, dtype=torch.float64, device=device)
        self._recent: list[tuple[Batch, torch.Tensor]] = []
        self.tokens = self.positions = 0
        self.shapes: set[tuple[int, ...]] = set()
        self.flops = 0.0
        self.started = time.perf_counter()

    def add(self, batch: Batch, parts: LossParts, flops: float) -> None:
        """Add one micro-batch."""
        scalars = [parts.loss_sum, torch.full_like(parts.loss_sum, batch.weight), parts.run_length, parts.blocks]
        self._vector += torch.cat([torch.stack([part.double() for part in scalars]), parts.correct, parts.counted])
        self._recent.append((batch, parts.loss_sum))
        self.tokens += batch.tokens
        self.positions += batch.ids.numel()
        self.shapes.add(tuple(batch.ids.shape))
        self.flops += flops

    def restart(self) -> None:
        """Count the time from now on."""
        self.started = time.perf_counter()

    def require_finite(self, step: int) -> None:
        """Raise NonFiniteError naming the first batch since the last reset whose loss is NaN or infinite."""
        if not self._recent:
            return
        finite = torch.stack([loss for _, loss in self._recent]).isfinite().tolist()
        for (batch, loss), fine in zip(self._recent, finite, strict=True):
            if not fine:
                raise NonFiniteError(
                    f"step {step}: the loss is {float(loss)} in {batch.describe()}",
                    "look at these rows, then resume from the last checkpoint with a lower optim.learning_rate"
                    " or with the rows removed",
                )
        self._recent.clear()

    @property
    def vector(self) -> torch.Tensor:
        """The sums as one float64 vector, for a reduction across drafters."""
        return self._vector

    def read(self, vector: torch.Tensor) -> tuple[float, float, tuple[float, ...], float]:
        """Return (loss, accuracy, accuracy by position, run length) of a vector like `vector`."""
        loss, weight, run_length, blocks, *counts = vector.tolist()
        correct, counted = counts[: self._width], counts[self._width :]
        by_position = tuple(right / max(of, 1.0) for right, of in zip(correct, counted, strict=True))
        return (
            loss / max(weight, 1e-9), sum(correct) / max(sum(counted), 1.0), by_position,
            1.0 + run_length / max(blocks, 1.0),
        )  # fmt: skip


@dataclass(slots=True)
class Flatness:
    """The memory high-water of each log line, the first left out: it holds what warming up still had.

    Buckets take unlike memory, so a line is compared with those that saw the same ones.
    """

    peaks: dict[frozenset[tuple[int, ...]], list[int]] = field(default_factory=dict)
    _begun: bool = False

    def add(self, memory: Memory, shapes: Iterable[tuple[int, ...]]) -> None:
        """Take the reading of one line whose batches had these shapes [rows, positions]."""
        if self._begun:
            self.peaks.setdefault(frozenset(shapes), []).append(memory.peak)
        self._begun = True

    @property
    def growth(self) -> float:
        """Largest rise over an earlier reading of the same shapes, as a fraction; 0 where none can be compared."""
        worst = 0.0
        for peaks in self.peaks.values():
            lowest = peaks[0]
            for peak in peaks[1:]:
                worst = max(worst, peak / lowest - 1.0)
                lowest = min(lowest, peak)
        return worst


class Journal:
    """metrics.jsonl: one object a line, each flushed as it is written."""

    def __init__(self, path: Path) -> None:
        """Append to `path`; raises OutputError when it cannot be written."""
        self._lines = Lines(path)

    def write(self, event: str, values: Mapping[str, object]) -> None:
        """Add one line; raises OutputError when the disk does not take it."""
        self._lines.write(json.dumps({"event": event, "time": round(time.time(), 3), **values}) + "\n")

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write what ended the run early, and close the file."""
        if error is not None:
            # What ended the run is told in any case; a full disk must not take its place.
            with suppress(OutputError):
                self.write("error", {"kind": type(error).__name__, "message": str(error)})
        self._lines.close()
