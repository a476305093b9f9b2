"""What is said while something takes seconds and has no progress to show: nobody waits in silence."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from envdoctor.cli.late import hush
from envdoctor.cli.leaving import leaving
from envdoctor.cli.terminal import say

# With the start of the command, a reader of a log is without a word for less than two seconds.
_QUIET_SECONDS = 1.5
# A line in a log that often tells that a long step still goes on.
_REMINDED = 10.0


@contextmanager
def waiting(text: str, *, quiet_seconds: float = _QUIET_SECONDS) -> Iterator[None]:
    """Say on stderr what is going on: on a terminal at once, with a spinner that goes when it is done.

    Anywhere else one line, and only once the block has run for `quiet_seconds`: what is quick leaves nothing in a log.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        with _said_late(text, quiet_seconds):
            yield
        return
    hush()
    from rich.console import Console
    from rich.markup import escape

    with Console(stderr=True).status(escape(leaving(text))):
        yield


@contextmanager
def stage(text: str, *, seconds: float = _REMINDED) -> Iterator[None]:
    """Say what is begun now, and that it goes on: a spinner on a terminal, elsewhere a line every `seconds`."""
    if sys.stderr is not None and sys.stderr.isatty():
        with waiting(text):
            yield
        return
    from threading import Event, Thread
    from time import monotonic

    say(text)
    begun, over = monotonic(), Event()

    def remind() -> None:
        while not over.wait(seconds):
            say(f"{text}: {monotonic() - begun:.0f} s so far")

    reminder = Thread(target=remind, daemon=True)
    reminder.start()
    try:
        yield
    finally:
        over.set()
        reminder.join()


@contextmanager
def _said_late(text: str, seconds: float) -> Iterator[None]:
    from threading import Timer

    timer = Timer(seconds, say, [text])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        # What was begun is said in full before the result.
        timer.join()
