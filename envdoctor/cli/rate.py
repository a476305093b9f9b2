"""How fast bytes come and how long the rest will take, from what has come lately."""

import time
from collections import deque
from collections.abc import Callable

from envdoctor.model.wording import size

_LATELY = 15.0
"""Seconds that the rate is taken over: long enough for a steady figure, short enough to see a stall."""


class Rate:
    """Bytes of one phase as they grow."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin; `clock` gives seconds."""
        self._clock = clock
        self._seen: deque[tuple[float, int]] = deque()

    def at(self, done: int, total: int) -> str:
        """Return "1.2 of 4.3 GB, 85.0 MB/s, 36 s left" for the bytes that are there now; `total` is 0 for unknown."""
        now = self._clock()
        self._seen.append((now, done))
        while len(self._seen) > 2 and now - self._seen[0][0] > _LATELY:
            self._seen.popleft()
        (since, before), seconds = self._seen[0], now - self._seen[0][0]
        parts = [f"{size(done)} of {size(total)}" if total else size(done)]
        if seconds > 0 and done > before:
            rate = (done - before) / seconds
            parts.append(f"{size(round(rate))}/s")
            if total > done:
                parts.append(f"{_duration((total - done) / rate)} left")
        elif since < now:
            parts.append(f"nothing for {_duration(seconds)}")
        return ", ".join(parts)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
