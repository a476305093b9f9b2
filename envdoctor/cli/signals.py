"""SIGTERM and SIGHUP as an interrupt: a command that was asked to stop cleans up first."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn


@contextmanager
def stoppable() -> Iterator[None]:
    """Raise KeyboardInterrupt in the block for SIGTERM and SIGHUP, as Ctrl-C does."""
    before = {number: signal.signal(number, _interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    del number, frame
    raise KeyboardInterrupt
