"""Bounded hand-over between threads, and how one thread's death reaches all the others."""

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

import torch

from trainer.errors import WorkerFailedError

Item = TypeVar("Item")


class Crew:
    """The threads of a run: the first error, and who must be woken by it."""

    def __init__(self) -> None:
        """Nobody has failed."""
        self._lock = threading.Lock()
        self._wake: list[Callable[[], None]] = []
        self.error: BaseException | None = None

    def on_failure(self, wake: Callable[[], None]) -> None:
        """Have `wake` called when a thread fails."""
        with self._lock:
            self._wake.append(wake)

    def fail(self, error: BaseException) -> None:
        """Keep the first error and wake everyone; later ones are its consequences."""
        with self._lock:
            if self.error is None:
                self.error = error
            wake = list(self._wake)
        for each in wake:
            each()

    def require_alive(self) -> None:
        """Raise WorkerFailedError when a thread has failed."""
        if self.error is not None:
            raise WorkerFailedError(f"another worker of this run failed: {self.error}")


class Channel(Generic[Item]):
    """A first-in first-out of at most `room` items; a full one makes the sender wait."""

    def __init__(self, room: int, crew: Crew) -> None:
        """Start empty."""
        self._room, self._crew = room, crew
        self._items: deque[Item] = deque()
        self._condition = threading.Condition()
        self._closed = False
        crew.on_failure(self._wake)

    def _wake(self) -> None:
        with self._condition:
            self._condition.notify_all()

    def close(self) -> None:
        """Take no more: a sender's `put` returns False from now on."""
        with self._condition:
            self._closed = True
            self._items.clear()
            self._condition.notify_all()

    def put(self, item: Item) -> bool:
        """Add an item once there is room; returns False when the receiver has closed the channel."""
        with self._condition:
            while len(self._items) >= self._room and not self._closed:
                self._crew.require_alive()
                self._condition.wait()
            self._crew.require_alive()
            if self._closed:
                return False
            self._items.append(item)
            self._condition.notify_all()
            return True

    def get(self) -> Item:
        """Return the oldest item once there is one; raises WorkerFailedError when there will be none."""
        with self._condition:
            while not self._items:
                self._crew.require_alive()
                self._condition.wait()
            self._condition.notify_all()
            return self._items.popleft()


class Meeting:
    """Where some of a run's threads wait until all of them have come."""

    def __init__(self, threads: int, crew: Crew) -> None:
        """Wait for this many."""
        self._barrier = threading.Barrier(threads)
        self._crew = crew
        crew.on_failure(self._barrier.abort)

    def wait(self) -> None:
        """Return once all have come; raises WorkerFailedError when one has died."""
        try:
            self._barrier.wait()
        except threading.BrokenBarrierError as error:
            self._crew.require_alive()
            raise WorkerFailedError("another worker of this run ended early") from error


class ThreadExchange:
    """Sums over the drafter threads of one process, always added in the order of the drafters."""

    def __init__(self, index: int, table: "ExchangeTable") -> None:
        """Take place `index` at the table."""
        self._index, self._table = index, table

    def pool(self, weight: float, stop: bool) -> tuple[float, bool]:  # noqa: FBT001
        """Return the sum of the weights and whether any drafter was asked to stop."""
        answers = self._table.show(self._index, (weight, stop))
        return sum(answer[0] for answer in answers), any(answer[1] for answer in answers)

    def reduce(self, buffers: list[torch.Tensor]) -> Callable[[], None]:
        """Sum each buffer over all drafters, in place."""
        shown = self._table.show(self._index, buffers)
        summed = []
        for place, buffer in enumerate(buffers):
            total = torch.zeros_like(buffer)
            for other in shown:
                total += other[place].to(buffer.device, non_blocking=True)
            summed.append(total)
        # Nobody may overwrite a buffer that another drafter still reads.
        self._table.meeting.wait()
        for buffer, total in zip(buffers, summed, strict=True):
            buffer.copy_(total)
        return lambda: None

    def total(self, vector: torch.Tensor) -> torch.Tensor:
        """Return the sum of a small vector over all drafters, on the CPU."""
        return torch.stack(self._table.show(self._index, vector.cpu())).sum(0)


class ExchangeTable:
    """Where drafter threads show each other values and wait until all have seen them."""

    def __init__(self, drafters: int, crew: Crew) -> None:
        """Set a table for this many drafters."""
        self._shown: list[object] = [None] * drafters
        self.meeting = Meeting(drafters, crew)

    def show(self, index: int, value: object) -> list:  # type: ignore[type-arg]
        """Show a value and return everyone's, in the order of the drafters."""
        self._shown[index] = value
        self.meeting.wait()
        everyone = list(self._shown)
        # A second meeting, so that the next value cannot be shown before everyone has read this one.
        self.meeting.wait()
        return everyone
