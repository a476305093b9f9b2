"""SIGTERM and Ctrl-C become a request that the loop sees between two steps: it saves, then the run ends.

A second one ends the process where it stands: in a warm-up, say, or in a wait for a worker that does not come.
"""

import signal
from types import FrameType, TracebackType
from typing import Self


class StopRequest:
    """Catches the signals while it is entered."""

    def __init__(self) -> None:
        """Nothing is asked for yet."""
        self.signal: int | None = None
        self._previous: dict[int, object] = {}

    def __call__(self) -> bool:
        """Return whether a stop was asked for."""
        return self.signal is not None

    def __enter__(self) -> Self:
        """Install the handlers."""
        for number in (signal.SIGTERM, signal.SIGINT):
            self._previous[number] = signal.signal(number, self._asked)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Put the old handlers back."""
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _asked(self, number: int, _frame: FrameType | None) -> None:
        if self.signal is not None:
            raise SystemExit(128 + number)
        self.signal = number

    @property
    def exit_code(self) -> int:
        """128 + the signal, as a shell reports it: 143 after SIGTERM or a vanished launcher, 130 after Ctrl-C."""
        return 128 + (self.signal or signal.SIGTERM)
