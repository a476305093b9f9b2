"""Progress of a restore on stderr: bars on a terminal, lines elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from envdoctor.cli.late import hush
from envdoctor.cli.leaving import leaving
from envdoctor.cli.rate import Rate
from envdoctor.cli.terminal import say
from envdoctor.model.events import Event, Listener, Phase

if TYPE_CHECKING:  # a command without a terminal draws no bars
    from rich.progress import Progress, TaskID

_TITLES: dict[Phase, str] = {
    "plan": "Plan",
    "copy": "Copy",
    "build": "Build",
    "download": "Download",
    "verify": "Verify",
    "check": "Check",
    "swap": "Swap",
    "recover": "Recover",
    "prune": "Prune",
    "pin": "Pin",
    "keep": "Keep",
    "fetch": "Fetch",
}
# Phases whose every line is news, where there is no terminal to draw a bar on.
_TOLD = ("build", "recover", "prune", "keep")
_MEASURED = ("download", "fetch")
"""Phases whose `done` and `total` are bytes that come over a network."""
_EVERY = 10.0
"""Seconds between two lines of a measured phase in a log."""
_STANDING: dict[Phase, str] = {
    "verify": "every file by its sha256",
    "pin": "each distribution to the wheel whose files it has",
}


@contextmanager
def progress() -> Iterator[Listener]:
    """Give a listener that shows events until the block ends."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield _Lines()
        return
    hush()
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.fields[title]:8}"), BarColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True)) as bars:
        yield _Bars(bars)


class _Lines:
    """One line when a phase begins, what it says that is not a count, and every ten seconds how far a download is."""

    def __init__(self) -> None:
        self._phase: Phase | None = None
        self._text = ""
        self._rate, self._said = Rate(), 0.0

    def __call__(self, event: Event) -> None:
        if event.phase in _MEASURED and event.phase == self._phase:
            told = self._rate.at(event.done, event.total)
            if time.monotonic() - self._said >= _EVERY:
                say(f"{_TITLES[event.phase]:8} {told}")
                self._said = time.monotonic()
            return
        news = event.phase != self._phase or (event.phase in _TOLD and event.text != self._text)
        if news and event.text:
            text = _STANDING.get(event.phase, event.text)
            say(f"{_TITLES[event.phase]:8} {text}")
            self._rate, self._said = Rate(), time.monotonic()
        elif event.total and event.phase in _STANDING and time.monotonic() - self._said >= _EVERY:
            say(f"{_TITLES[event.phase]:8} {_STANDING[event.phase]}: {event.done / event.total:.0%}")
            self._said = time.monotonic()
        self._phase, self._text = event.phase, event.text


class _Bars:
    """One bar a phase."""

    def __init__(self, bars: "Progress") -> None:
        self._bars = bars
        self._tasks: dict[Phase, TaskID] = {}
        self._rate, self._measured = Rate(), ""

    def __call__(self, event: Event) -> None:
        if event.phase == "recover":
            self._bars.console.print(leaving(f"Recover  {event.text}"), markup=False, highlight=False)
            return
        if event.phase not in self._tasks:
            for done in self._tasks.values():
                self._bars.update(done, total=1, completed=1)
            self._rate, self._measured = Rate(), event.text
            self._tasks[event.phase] = self._bars.add_task(leaving(event.text), total=None, title=_TITLES[event.phase])
        total, text = event.total or None, event.text
        if event.phase in _MEASURED:
            self._measured = text or self._measured
            text = f"{self._measured}: {self._rate.at(event.done, event.total)}"
        self._bars.update(
            self._tasks[event.phase],
            total=total,
            completed=event.done,
            # None leaves the text as it is.
            description=leaving(text).replace("[", r"\[") or None,
        )
