"""SIGTERM and Ctrl-C, in every phase of a run.

Before the first step there is nothing to save: the process ends at once. From the first step on a signal is a request
that the loop sees between two steps: it saves, then the run ends. A second one ends the process where it stands: in a
wait for a worker that does not come, say.
"""

import os
import signal
from types import FrameType, TracebackType
from typing import Self


class Interrupted(KeyboardInterrupt):
    """A signal came before there was anything to save."""


class StopRequest:
    """Catches the signals while it is entered."""

    def __init__(self) -> None:
        """Nothing is asked for yet."""
        self.signal: int | None = None
        self.told = False
        """Whether a request is answered with a line on stderr: in a worker that leads, and is not quiet."""
        self.saves = False
        """Whether a request is answered by saving."""
        self._previous: dict[int, object] = {}

    def __call__(self) -> bool:
        """Return whether a stop was asked for. Who asks can save: signals are requests from now on."""
        self.saves = True
        return self.signal is not None

    def require_none(self) -> None:
        """Raise Interrupted where a library swallowed the one that a signal raised."""
        if self.signal is not None:
            raise Interrupted

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
        if not self.saves:
            raise Interrupted
        if self.told:
            # Past Python's buffers: the signal may have come in the middle of a write to them.
            os.write(2, b"\nstopping after this step; a second signal ends the run without saving\n")

    @property
    def exit_code(self) -> int:
        """128 + the signal, as a shell reports it: 143 after SIGTERM or a vanished launcher, 130 after Ctrl-C."""
        return 128 + (self.signal or signal.SIGTERM)
