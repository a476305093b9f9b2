"""What readings of memory and throughput say of a running training: pure, every time is passed in.

A fallback to uncompiled code is slow for as long as it lasts, and its memory rises and falls with the scores that it
computes. So throughput counts as low when every reading of half a minute is: a bucket of long rows, an evaluation or a
checkpoint is one slow reading among others. Memory swings when it falls and rises again several times; one step up is a
new bucket, one fall an evaluation that gave its memory back. A compilation fills the time of a reading and leaves the
GPU idle: such readings say nothing of a fallback.
"""

import statistics
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Literal

from envdoctor.model.frozen import field, frozen, mutable

_EVERY = 5
"""Samples between two looks at whether memory swings."""


@frozen
class Limits:
    """When something is said. Times are seconds, shares fractions."""

    warm_up: float = 20.0
    """After the first reading of throughput; what was read until then is left out."""
    unread: float = 120.0
    """After the first look at the GPUs, where throughput is never read."""
    window: float = 30.0
    """How long throughput must be low, or back, before it is said; memory is looked at over the same time."""
    low: float = 0.5
    """Of the expected throughput."""
    idle: float = 0.3
    """Mean utilisation of the GPUs below which they wait for something: data, or the compiler."""
    swing: float = 0.1
    """A fall or a rise of memory that counts, of the most that was in use."""
    falls: int = 3
    """So many falls, each followed by a rise, are swings."""


@frozen
class Sample:
    """One look at the GPUs of a launch, by NVML's index."""

    at: float
    used: tuple[int, ...]
    """Bytes in use of each GPU, by whatever process."""
    busy: tuple[int, ...] = ()
    """Utilisation of each in per cent; empty where NVML does not say it."""


@frozen
class Throughput:
    """One reading of throughput."""

    at: float
    tokens_per_second: float
    compiled: bool = False
    """Something was compiled in the time that it covers."""


@frozen
class Swing:
    """How the memory of one GPU rises and falls."""

    gpu: int
    """Its place among the GPUs of the launch."""
    falls: int
    lowest: int
    highest: int
    """Bytes."""


@frozen
class LaunchState:
    """What was read last says."""

    expected: float
    """Tokens a second that were expected; 0 where the profile says nothing."""
    tokens_per_second: float | None
    """Median of the last half minute; None where nothing was read after the warm-up."""
    low_for: float
    """Seconds for which every reading was below the limit."""
    swings: tuple[Swing, ...]
    busy: float | None
    """Mean utilisation of the GPUs as a fraction; None where it was not read."""

    @property
    def share(self) -> float | None:
        """The throughput over the expected one; None where one of both is not known."""
        return self.tokens_per_second / self.expected if self.tokens_per_second is not None and self.expected else None


Kind = Literal["slow", "back", "swings"]


@frozen
class Notice:
    """Something to be said while the training runs."""

    kind: Kind
    state: LaunchState


@mutable
class Watch:
    """The readings of one launch, and what was said of them."""

    expected: float
    """Tokens a second of the whole launch; 0 where the profile says nothing."""
    flat: bool
    """The profile says that memory is flat."""
    limits: Limits = field(default_factory=Limits)
    samples: deque[Sample] = field(default_factory=deque)
    """Of the last half minute after the warm-up."""
    recent: deque[Throughput] = field(default_factory=deque)
    """Readings of the last half minute after the warm-up."""
    read: int = 0
    """Readings in all."""
    judged: int = 0
    """Readings after the warm-up."""
    low_seconds: float = 0.0
    """What the low ones among them cover."""
    sampled: int = 0
    """Looks at the GPUs after the warm-up."""
    slow: bool = False
    """It was said that throughput is low, and not that it is back."""
    said: set[Kind] = field(default_factory=set)
    _first_sample: float | None = None
    _first_reading: float | None = None
    _before: float = 0.0
    """Where the time of the next reading begins."""
    _turned: float = 0.0
    """Since when every reading is on the same side of the limit."""
    _lows: int = 0
    """Readings below the limit since then."""

    @property
    def seen(self) -> bool:
        """Tell whether the GPUs were looked at, warm-up included."""
        return self._first_sample is not None

    def sample(self, sample: Sample) -> Notice | None:
        """Take a look at the GPUs; return what is to be said now."""
        if self._first_sample is None:
            self._first_sample = sample.at
        if not self._warm(sample.at):
            return None
        self.sampled += 1
        self.samples.append(sample)
        while self.samples[0].at < sample.at - self.limits.window:
            self.samples.popleft()
        # A whole half minute must have been seen; looking at it each time would be most of what a watch costs.
        full = sample.at - self.samples[0].at >= self.limits.window * 0.9 and self.sampled % _EVERY == 0
        # Where throughput is low too, the notice of that has both.
        if self.flat and full and not self._lows and not self.said and swings(self.samples, self.limits):
            return self._say("swings")
        return None

    def reading(self, reading: Throughput) -> Notice | None:
        """Take a reading of throughput; return what is to be said now."""
        self.read += 1
        if self._first_reading is None:
            self._first_reading = reading.at
        begun, self._before = self._before, reading.at
        if not self._warm(reading.at) or reading.compiled:
            self._turned, self._lows = reading.at, 0
            return None
        self.judged += 1
        self.recent.append(reading)
        while self.recent[0].at <= reading.at - self.limits.window:
            self.recent.popleft()
        if not self.expected:
            return None
        low = reading.tokens_per_second < self.limits.low * self.expected
        if low is not bool(self._lows):
            self._turned, self._lows = max(begun, self._turned), 0
        self._lows += low
        self.low_seconds += (reading.at - begun) * low
        lasts = reading.at - self._turned
        if self.slow and not low and lasts >= self.limits.window:
            self.slow = False
            return self._say("back")
        if low and not self.slow and lasts >= self._needed():
            self.slow = True
            return self._say("slow")
        return None

    def state(self) -> LaunchState:
        """Return what was read last says."""
        recent = [one.tokens_per_second for one in self.recent]
        busy = [percent for sample in self.samples for percent in sample.busy]
        return LaunchState(
            expected=self.expected,
            tokens_per_second=statistics.median(recent) if recent else None,
            low_for=self.recent[-1].at - self._turned if self._lows else 0.0,
            swings=tuple(swings(self.samples, self.limits)),
            busy=statistics.fmean(busy) / 100 if busy else None,
        )

    def _needed(self) -> float:
        busy = self.state().busy
        if busy is not None and busy < self.limits.idle:
            return self.limits.window * 4  # the compiler may be at work
        return self.limits.window * (2 if self._lows == 1 else 1)

    def _say(self, kind: Kind) -> Notice:
        self.said.add(kind)
        return Notice(kind=kind, state=self.state())

    def _warm(self, at: float) -> bool:
        if self._first_reading is not None:
            return at >= self._first_reading + self.limits.warm_up
        return self._first_sample is not None and at >= self._first_sample + self.limits.unread


def swings(samples: Iterable[Sample], limits: Limits) -> list[Swing]:
    """Return the GPUs whose memory swings, with how far; all samples have the same GPUs."""
    series = list(zip(*(sample.used for sample in samples), strict=True))
    found = []
    for gpu, used in enumerate(series):
        falls = _falls(used, limits.swing * max(used))
        if falls >= limits.falls:
            found.append(Swing(gpu=gpu, falls=falls, lowest=min(used), highest=max(used)))
    return found


def _falls(used: Sequence[int], least: float) -> int:
    """Return how often a series fell by that much and then rose by that much again."""
    falls, falling = 0, False
    top = bottom = used[0]
    for value in used:
        if falling:
            bottom = min(bottom, value)
            if value - bottom >= least > 0:
                falls, falling, top = falls + 1, False, value
        else:
            top = max(top, value)
            if top - value >= least > 0:
                falling, bottom = True, value
    return falls
