"""SIGTERM and SIGHUP as an interrupt: a command that was asked to stop cleans up first."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn


@contextmanager
def stoppable() -> Iterator[None]:
    """Raise KeyboardInterrupt in the block for SIGTERM and SIGHUP, as Ctrl-C does; what nohup ignores stays ignored."""
    before = answer_stops()
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def answer_stops() -> dict[signal.Signals, Any]:
    """Raise KeyboardInterrupt for SIGTERM and SIGHUP from now on; return signal -> what answered it before."""
    wanted = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is not signal.SIG_IGN]
    return {number: signal.signal(number, _interrupt) for number in wanted}


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    del number, frame
    raise KeyboardInterrupt
