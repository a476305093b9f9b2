"""Admission of whole steps, so that no compile ever runs beside a step it could break or hang.

torch.compile is not thread safe: while one thread traces, a compiled call of another may fail or fall back, and
on a CUDA device the two can deadlock over dynamo's lock and the device's one autograd worker. Locks round single
calls cannot cure that, because a backward compiles lazily inside autograd. So the unit here is a step, forward and
backward: one whose signature has not yet completed on its device runs alone; known ones run together.

Usable alone, with nothing else of this package:

    gate = CompileGate()
    with gate.step(("train", ids.shape, ids.dtype), device=str(ids.device)):
        loss(model(ids)).backward()

Never wait inside a step for another thread's step (a barrier, a collective, a queue): it may be waiting for yours.
"""

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from trainer.compile.state import compile_counts, flag_is_thread_local
from trainer.errors import CompileStateError

Key = tuple[str, Hashable]
_ANYWHERE = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class GateStats:
    """What the gate did so far."""

    alone: int
    """Steps that ran alone because their signature was new."""
    together: int
    """Steps that were known."""
    demoted: int
    """Signatures made new again, because something compiled during a step that was known."""
    waited: float
    """Seconds that threads stood before the gate, summed."""


def compilations() -> int:
    """Return a count that grows with every compilation of this process."""
    counts = compile_counts()
    return counts.graphs + counts.events


class CompileGate:
    """Readers/writer admission of steps, by signature and device."""

    def __init__(
        self,
        *,
        count: Callable[[], int] = compilations,
        by_device: bool | None = None,
        patience: float | None = None,
    ) -> None:
        """Start with no signature known.

        count: grows whenever something was compiled.
        by_device: a new step excludes only the steps of its own device. That is sound where torch's tracing flag is
            thread-local, because the deadlock needs two threads on one device; None asks torch which it is.
        patience: seconds to stand at the gate before CompileStateError names who holds it; None waits for ever.
        """
        self._count = count
        self._by_device = flag_is_thread_local() if by_device is None else by_device
        self._patience = patience
        self._condition = threading.Condition()
        self._known: set[Key] = set()
        self._running: Counter[str] = Counter()
        self._alone: dict[str, Key] = {}
        self._queue: defaultdict[str, set[int]] = defaultdict(set)
        self._looking = 0
        self._exclusive_total = 0
        self._together = self._demoted = 0
        self._waited = 0.0
        self._inside = threading.local()

    @property
    def stats(self) -> GateStats:
        """A snapshot of the counts."""
        with self._condition:
            return GateStats(
                alone=self._exclusive_total, together=self._together, demoted=self._demoted, waited=self._waited
            )

    @property
    def queued(self) -> int:
        """How many threads stand before the gate with a step that is new to them."""
        with self._condition:
            return sum(len(waiting) for waiting in self._queue.values())

    def knows(self, signature: Hashable, device: str = "cpu") -> bool:
        """Return whether a step of this signature has completed on this device and was not demoted since."""
        with self._condition:
            return (device, signature) in self._known

    @contextmanager
    def step(self, signature: Hashable, device: str = "cpu") -> Iterator[bool]:
        """Run the body as one step; yields whether it runs alone.

        The signature must name everything that a compiled function specialises on: shapes, dtypes, the kind of
        mask, whether gradients are on. A body that raises leaves its signature unknown.
        """
        if getattr(self._inside, "step", None) is not None:
            raise CompileStateError(
                f"a step ({signature!r}) was entered inside another ({self._inside.step!r}) of the same thread",
                "let the outer step cover both, or end it first",
            )
        key = (device, signature)
        alone = self._enter(key)
        self._inside.step = signature
        before, exclusive_before = self._count(), self._exclusive_total
        completed = False
        try:
            yield alone
            completed = True
        finally:
            self._inside.step = None
            self._leave(key, alone=alone, completed=completed, before=before, exclusive_before=exclusive_before)

    @contextmanager
    def look(self) -> Iterator[None]:
        """Run the body while no step runs on any device, so that nothing of a step is half done: no trace, no patch."""
        with self._condition:
            self._looking += 1
            try:
                while self._alone or any(self._running.values()):
                    self._condition.wait()
                yield
            finally:
                self._looking -= 1
                self._condition.notify_all()

    def _scope(self, device: str) -> str:
        return device if self._by_device else _ANYWHERE

    def _enter(self, key: Key) -> bool:
        scope = self._scope(key[0])
        started = time.monotonic()
        with self._condition:
            try:
                alone = self._admit(key, scope, started)
            finally:
                self._unqueue(scope)
            self._waited += time.monotonic() - started
            if alone:
                self._alone[scope] = key
                self._exclusive_total += 1
            else:
                self._running[scope] += 1
                self._together += 1
            return alone

    def _admit(self, key: Key, scope: str, started: float) -> bool:
        """Wait until the step may run; returns whether alone."""
        while True:
            if key in self._known:
                # What it queued for has been done by another thread: it must not keep known steps out any more.
                self._unqueue(scope)
                # A queued new step goes first; otherwise known ones could keep it out for ever.
                if scope not in self._alone and not self._queue[scope] and not self._looking:
                    return False
            else:
                if scope not in self._alone and not self._running[scope] and not self._looking:
                    return True
                self._queue[scope].add(threading.get_ident())
            self._stand(key, started)

    def _unqueue(self, scope: str) -> None:
        waiting = self._queue[scope]
        if threading.get_ident() in waiting:
            waiting.discard(threading.get_ident())
            self._condition.notify_all()

    def _stand(self, key: Key, started: float) -> None:
        if self._patience is None:
            self._condition.wait()
            return
        left = self._patience - (time.monotonic() - started)
        if left <= 0 or not self._condition.wait(left):
            scope = self._scope(key[0])
            holder = self._alone.get(scope) or f"{self._running[scope]} known steps"
            raise CompileStateError(
                f"step {key!r} stood {self._patience:g} s at the gate, which {holder!r} holds",
                "a step must not wait for another thread's step; raise the patience if compiling takes this long",
            )

    def _leave(self, key: Key, *, alone: bool, completed: bool, before: int, exclusive_before: int) -> None:
        scope = self._scope(key[0])
        with self._condition:
            if alone:
                del self._alone[scope]
                if completed:
                    self._known.add(key)
            else:
                self._running[scope] -= 1
                # Growth while a new step ran on another device is that step's; without one it is a recompile
                # inside a known step, and whoever was running may be the one it belongs to.
                foreign = bool(self._alone) or self._exclusive_total != exclusive_before
                if not foreign and self._count() > before and key in self._known:
                    self._known.discard(key)
                    self._demoted += 1
            self._condition.notify_all()
