"""A window of steps recorded with torch's profiler: a trace for Perfetto or chrome://tracing, a table of kernels."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from trainer.writing import write_whole, writing

_ROWS = 40
_WITHOUT = "make room or leave run.profile empty, then go on with --resume"


class ProfilerWindow:
    """Records the steps from `window[0]` to `window[1]`, counted from 1."""

    def __init__(self, window: tuple[int, ...], output: Path) -> None:
        """Record nothing for an empty window."""
        self.window, self.output = window, output
        self._profile: Any = None
        self._last = 0

    @contextmanager
    def step(self, number: int) -> Iterator[None]:
        """Run the body as step `number`."""
        if self.window and number == self.window[0]:
            self._profile = torch.profiler.profile(record_shapes=True)
            self._profile.start()
        try:
            yield
        finally:
            self._last = number
            if self._profile is not None and number == self.window[1]:
                self._finish()

    def close(self) -> None:
        """Write what was recorded of a window that an evaluation or the run's end cuts short."""
        if self._profile is not None:
            self._finish()

    def _finish(self) -> None:
        held, self._profile = self._profile, None
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        held.stop()
        place = self.output / "profile"
        name = f"steps-{self.window[0]}-{self._last}"
        with writing(place, _WITHOUT, RuntimeError):
            place.mkdir(parents=True, exist_ok=True)
            held.export_chrome_trace(str(place / f"{name}.json.gz"))
        order = "self_cuda_time_total" if torch.cuda.is_available() else "self_cpu_time_total"
        table = held.key_averages().table(sort_by=order, row_limit=_ROWS)
        write_whole(place / f"{name}.txt", table + "\n", _WITHOUT)
