"""Throughput from what a training writes: lines of its output, or of a metrics file. Pure: bytes go in.

Sources: trainer/records/metrics.py (one JSON object a line); for other trainers a pattern whose first group is
the number.
"""

import contextlib
import json
import re
import signal
import time
from collections.abc import Iterator
from types import FrameType

from envdoctor.model.frozen import field, frozen, mutable
from envdoctor.standards import measured

DEFAULT_PATTERN = (
    r"(?i)(?<![0-9])(?<![0-9][,_])([0-9][0-9,_]{0,19}(?:\.[0-9]+)?\s?[kM]?)\s?"
    r"tok(?:ens?)?(?:/s(?:ec)?\b|\s+per\s+second)"
    r"|tok(?:ens?)?(?:/s(?:ec)?|_per_sec(?:ond)?)\b[\"']?\s*[:=]\s*([0-9][0-9,_]*(?:\.[0-9]+)?\s?[kM]?)"
)
"""`17,300 tok/s`, `21.5k tokens/s`, `tok/s=17300`, `tokens_per_second: 17300`.

Tried once a number and in a time that grows with the line: output may hold lists of thousands of token ids.
"""
_LONGEST_LINE = 1 << 16
_END = 2048
"""Letters at each end of a longer line that a pattern of `--measure` is tried on: it may take the square of them."""
_LONGEST_LOOK = 0.1
"""Seconds of processor time after which such a pattern is stopped."""
_SHARE = 0.05
"""Of the time since the first byte: more is not spent on looking, since nothing is handed on meanwhile."""
_AT_ONCE = 0.5
"""Seconds of looking that are free: a start writes much."""


@frozen
class RateRead:
    """What one line says."""

    tokens_per_second: float
    compilations: int | None = None
    """Since the run's warm-up, as the line says; None where it does not."""


@mutable
class RateReader:
    """Cuts bytes into lines and reads each, as long as that takes a small part of the time."""

    pattern: re.Pattern[str]
    own: bool = False
    """The pattern is the user's."""
    journal: bool = False
    """A line was seen that names its event: the journal of the trainer, which takes lines of others."""
    lines: int = 0
    passed: int = 0
    """Of these, lines that were not read, or not to their end, since reading them took too long."""
    _started: float = field(default_factory=time.monotonic)
    _spent: float = 0.0
    _rest: bytes = field(default=b"")

    def feed(self, chunk: bytes) -> Iterator[RateRead]:
        """Yield what the lines say that end in this chunk; one that is too long to be a log line is passed over."""
        first, *others = re.split(rb"[\r\n]+", chunk)
        *whole, rest = self._rest + first, *others
        self._rest = rest[: _LONGEST_LINE + 1]
        for line in whole:
            if line and len(line) <= _LONGEST_LINE:
                self.lines += 1
                found = self._within_share(line.decode("utf-8", "replace"))
                if found is not None:
                    yield found

    def _within_share(self, line: str) -> RateRead | None:
        if self._spent > _AT_ONCE + _SHARE * (time.monotonic() - self._started):
            self.passed += 1
            return None
        began = time.thread_time()
        try:
            return self._line(line)
        except _TooLongError:
            self.passed += 1
            return None
        finally:
            self._spent += time.thread_time() - began

    def _line(self, line: str) -> RateRead | None:
        if line.startswith("{"):
            with contextlib.suppress(ValueError, RecursionError):
                told = json.loads(line)
                self.journal = self.journal or isinstance(told.get("event"), str)
                if told.get("event") == "watch":  # what this watch wrote there is no reading
                    return None
                value = told.get("tokens_per_second")
                if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf"):
                    compilations = told.get("compilations")
                    return RateRead(
                        tokens_per_second=float(value),
                        compilations=compilations if isinstance(compilations, int) else None,
                    )
        if self.own:
            line = line if len(line) <= 2 * _END else f"{line[:_END]}\n{line[-_END:]}"
            with _stopped_after(_LONGEST_LOOK):
                matches = list(self.pattern.finditer(line))
        else:
            matches = list(self.pattern.finditer(line))
        found = [measured.number(next(filter(None, match.groups()), "")) for match in matches]
        numbers = [one for one in found if one is not None]
        return RateRead(tokens_per_second=numbers[-1]) if numbers else None


def reader_of(text: str) -> RateReader:
    """Return a reader by the user's pattern, or by the default. Raises UsageError for one without its one group."""
    return RateReader(pattern=measured.compiled(text) if text else re.compile(DEFAULT_PATTERN), own=bool(text))


class _TooLongError(Exception):
    pass


@contextlib.contextmanager
def _stopped_after(seconds: float) -> Iterator[None]:
    """Raise `_TooLongError` in what takes longer; a match answers signals, and no thread could end it."""

    def stop(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise _TooLongError

    before = signal.signal(signal.SIGVTALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    finally:
        signal.signal(signal.SIGVTALRM, before)
