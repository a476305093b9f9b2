"""A word on a terminal for a command that takes seconds and has nothing else to say: nobody waits in silence.

A plain `check` loads neither threading nor rich for it: one thread of the interpreter's own, which waits for a lock.
"""

import _thread
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from envdoctor.cli.shown import shown
from envdoctor.facts.second_process import start_thread

_PATIENCE = 1.5
"""Seconds until the first word; with the start of the program that is less than two."""
_AGAIN = 1.0
_ERASE = "\r\x1b[K"


class _Watch:
    def __init__(self) -> None:
        self.lock = _thread.allocate_lock()
        self.over = _thread.allocate_lock()
        self.spoken = False

    def wait(self, text: str) -> None:
        """Say how long it goes on, until the lock is released."""
        begun, patience = time.monotonic(), _PATIENCE
        while not self.over.acquire(timeout=patience):
            with self.lock:
                if self.over.locked():
                    self.spoken, patience = True, _AGAIN
                    sys.stderr.write(f"{_ERASE}{text}: {time.monotonic() - begun:.0f} s so far")
                    sys.stderr.flush()

    def end(self) -> None:
        """Say nothing more, and erase what was said."""
        with self.lock:
            if self.over.locked():
                self.over.release()
            if self.spoken:
                sys.stderr.write(_ERASE)
                sys.stderr.flush()
                self.spoken = False


_WATCHES: list[_Watch] = []


@contextmanager
def never_silent(text: str) -> Iterator[None]:
    """Say on a terminal that the block still goes on, until something else is said."""
    if shown().quiet or sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    watch = _Watch()
    watch.over.acquire()
    _WATCHES.append(watch)
    start_thread(lambda: watch.wait(text))
    try:
        yield
    finally:
        hush()


def hush() -> None:
    """End the word of the command, for what is written to the terminal now."""
    while _WATCHES:
        _WATCHES.pop().end()
