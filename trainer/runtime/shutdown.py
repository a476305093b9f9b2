"""SIGTERM and Ctrl-C, in every phase of a run.

Before the first step there is nothing to save: the process ends at once. From the first step on a signal is a request
that the loop sees between two steps: it saves, then the run ends. A second one ends the process where it stands:
in a wait for a worker that does not come, say.
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import Self

SIGNALS = (signal.SIGTERM, signal.SIGINT)
AFTER_STEP = "stopping after this step; a second signal ends the run without saving"
AFTER_PROMPT = "stopping: the evaluation ends, then one more step; a second signal ends the run without saving"
AFTER_TRAINING = "stopping: training is over, and the evaluation is left out; a second signal ends the run at once"


class Interrupted(KeyboardInterrupt):
    """A signal came before there was anything to save."""


class StopRequest:
    """Catches the signals while it is entered."""

    def __init__(self) -> None:
        """Nothing is asked for yet."""
        self.signal: int | None = None
        self.told = False
        """Whether a request is answered with a line on stderr: in a worker that leads, and is not quiet."""
        self.words = AFTER_STEP
        """That line."""
        self.saves = False
        """Whether a request is answered by saving."""
        self.ending: Callable[[], None] = lambda: None
        """Called before a second signal ends the process: processes that were started may not outlive it."""
        self._held = False
        self._previous: dict[int, object] = {}

    def __call__(self) -> bool:
        """Return whether a stop was asked for. Who asks can save: signals are requests from now on."""
        self.saves = True
        return self.signal is not None

    def require_none(self) -> None:
        """Raise Interrupted where a library swallowed the one that a signal raised."""
        if self.signal is not None:
            raise Interrupted

    def listen(self) -> None:
        """Take the signals that came since the launcher started this process: it blocks them until now."""
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)

    def saying(self, words: str, work: Callable[..., None]) -> Callable[..., None]:
        """Return `work` during which a request is answered with these words."""

        def told(*arguments: object) -> None:
            before, self.words = self.words, words
            work(*arguments)
            self.words = before

        return told

    @contextmanager
    def held(self) -> Iterator[None]:
        """Have a signal wait for the body's end: what it starts is known by then."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
        self.require_none()

    def __enter__(self) -> Self:
        """Install the handlers."""
        for number in SIGNALS:
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
            # Not an exception: on its way out it would wait for threads and files, and a library may swallow it.
            self.ending()
            if self.told:
                _tell("ended at once" + ("\x1b[?25h" if os.isatty(2) else ""))
            os._exit(128 + number)
        self.signal = number
        if not self.saves and not self._held:
            raise Interrupted
        if self.told and self.saves:
            _tell(self.words)

    @property
    def exit_code(self) -> int:
        """128 + the signal, as a shell reports it: 143 after SIGTERM or a vanished launcher, 130 after Ctrl-C."""
        return 128 + (self.signal or signal.SIGTERM)


def _tell(words: str) -> None:
    # Past Python's buffers: the signal may have come in the middle of a write to them. A terminal that is gone, or a
    # full disk behind stderr, is no reason to lose a run.
    with suppress(OSError):
        os.write(2, f"\n{words}\n".encode())
