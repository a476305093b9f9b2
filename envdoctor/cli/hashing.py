"""A bar on a terminal while files are hashed, lines in a log: only once it is worth it."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from envdoctor.cli.late import hush
from envdoctor.cli.terminal import say
from envdoctor.model.wording import size

# A second `--deep` hashes nothing and a small venv is done in a blink: loading the bar would take longer.
_PATIENCE_SECONDS = 0.5
_FIRST_LINE, _NEXT_LINE = 5.0, 10.0
"""Seconds in a log."""


@contextmanager
def hashing(*, quiet: bool = False) -> Iterator[Callable[[int, int], None] | None]:
    """Yield what to call with (bytes done, bytes in all); None where nobody watches."""
    if quiet:
        yield None
        return
    if sys.stderr is None or not sys.stderr.isatty():
        yield _Lines().show
        return
    bar = _Bar()
    try:
        yield bar.show
    finally:
        bar.stop()


class _Lines:
    """In a log: how far it is, after five seconds and then every ten."""

    def __init__(self) -> None:
        self.next = time.monotonic() + _FIRST_LINE

    def show(self, done: int, total: int) -> None:
        if time.monotonic() >= self.next:
            say(f"hashing: {size(done)} of {size(total)}")
            self.next = time.monotonic() + _NEXT_LINE


class _Bar:
    def __init__(self) -> None:
        self.started = time.monotonic()
        self.stop: Callable[[], None] = lambda: None
        self.update: Callable[[int, int], None] | None = None

    def show(self, done: int, total: int) -> None:
        if self.update is None:
            if time.monotonic() - self.started < _PATIENCE_SECONDS or done >= total:
                return
            self._open(total)
        if self.update is not None:
            self.update(done, total)

    def _open(self, total: int) -> None:
        hush()
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("hashing"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
        progress = Progress(*columns, console=Console(stderr=True), transient=True)
        task = progress.add_task("hashing", total=total)
        progress.start()
        self.stop = progress.stop
        self.update = lambda done, total: progress.update(task, completed=done, total=total)
