"""Throughput from what a training writes: lines of its output, or of a metrics file. Pure: bytes go in.

Sources: trainer/metrics.py (one JSON object a line); for other trainers a pattern whose first group is the number.
"""

import contextlib
import json
import re
from collections.abc import Iterator

from envdoctor.model.frozen import field, frozen, mutable
from envdoctor.standards import measured

DEFAULT_PATTERN = (
    r"(?i)([0-9][0-9,_]*(?:\.[0-9]+)?\s?[kM]?)\s?tok(?:ens?)?(?:/s(?:ec)?\b|\s+per\s+second)"
    r"|tok(?:ens?)?(?:/s(?:ec)?|_per_sec(?:ond)?)\b[\"']?\s*[:=]\s*([0-9][0-9,_]*(?:\.[0-9]+)?\s?[kM]?)"
)
"""`17,300 tok/s`, `21.5k tokens/s`, `tok/s=17300`, `tokens_per_second: 17300`."""
_LONGEST_LINE = 1 << 16


@frozen
class RateRead:
    """What one line says."""

    tokens_per_second: float
    compilations: int | None = None
    """Since the run's warm-up, as the line says; None where it does not."""


@mutable
class RateReader:
    """Cuts bytes into lines and reads each."""

    pattern: re.Pattern[str]
    journal: bool = False
    """A line was seen that names its event: the journal of the trainer, which takes lines of others."""
    lines: int = 0
    _rest: bytes = field(default=b"")

    def feed(self, chunk: bytes) -> Iterator[RateRead]:
        """Yield what the lines say that end in this chunk; one that is too long to be a log line is passed over."""
        *whole, rest = re.split(rb"[\r\n]+", self._rest + chunk)
        self._rest = rest[-_LONGEST_LINE:]
        for line in whole:
            if line and len(line) <= _LONGEST_LINE:
                self.lines += 1
                found = self._line(line.decode("utf-8", "replace"))
                if found is not None:
                    yield found

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
        found = [measured.number(next(filter(None, match.groups()), "")) for match in self.pattern.finditer(line)]
        numbers = [one for one in found if one is not None]
        return RateRead(tokens_per_second=numbers[-1]) if numbers else None


def pattern_of(text: str) -> re.Pattern[str]:
    """Return the user's pattern, or the default for an empty one. Raises UsageError for one without its one group."""
    return measured.compiled(text) if text else re.compile(DEFAULT_PATTERN)
