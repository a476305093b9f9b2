"""Forced interleavings of two threads over torch's tracer, a process each: python interleave.py NAME-MODE...

With several names each is forked from the one process that has torch imported, and its result is a line.

Nothing here hopes: a module's forward, run by the tracer, tells the other thread to act and waits for it. Behind the
gate the other thread cannot act yet, so the wait ends by its own limit and the two run one after the other.
"""

import json
import os
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
import torch._dynamo
from torch import nn
from torch.fx import symbolic_trace

from trainer.compile.state import damage, prepare_thread
from trainer.runtime.compile_gate import CompileGate

WAIT = 20.0
BLOCKED = 0.5
"""Seconds the gated thread is given to slip in where it must not."""


class Signalling(nn.Module):
    """A module whose forward, when traced, signals and waits."""

    def __init__(self, reached: threading.Event, go_on: threading.Event, limit: float) -> None:
        """Bind the events and the longest wait."""
        super().__init__()
        self.reached, self.go_on, self.limit = reached, go_on, limit

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Signal, wait, and be traced."""
        self.reached.set()
        self.go_on.wait(self.limit)
        return states + 1


class Scenario:
    """Two threads, and what went wrong in them."""

    def __init__(self, *, gated: bool) -> None:
        """Make the gate, or none."""
        prepare_thread()
        self.gate = CompileGate(by_device=False, patience=WAIT) if gated else None
        self.limit = BLOCKED if gated else WAIT
        self.errors: list[str] = []

    def step(self, signature: str) -> AbstractContextManager[bool]:
        """Return the context of a step."""
        return nullcontext(enter_result=False) if self.gate is None else self.gate.step(signature, "cpu")

    def thread(self, work: Callable[[], None]) -> threading.Thread:
        """Start a thread whose error is kept."""

        def guarded() -> None:
            prepare_thread()
            try:
                work()
            except Exception as error:  # noqa: BLE001 - every kind of failure is a result
                self.errors.append(f"{type(error).__name__}: {str(error).splitlines()[0]}")

        made = threading.Thread(target=guarded)
        made.start()
        return made

    def call_during_trace(self) -> None:
        """Call warmed compiled code in one thread inside another's symbolic trace."""
        compiled = torch.compile(lambda states: states.sin() * 2, backend="aot_eager")
        states = torch.ones(4)
        with self.step("call"):
            compiled(states)
        reached, go_on = threading.Event(), threading.Event()

        def trace() -> None:
            with self.step("trace"):
                symbolic_trace(Signalling(reached, go_on, self.limit))

        def call() -> None:
            assert reached.wait(WAIT)
            with self.step("call"):
                compiled(states)
            go_on.set()

        caller = self.thread(call)
        tracer = self.thread(trace)
        caller.join()
        go_on.set()
        tracer.join()

    def overlapping_traces(self) -> None:
        """Begin two traces one inside the other, end them in the order they began, then call compiled code."""
        begun, second, ended = threading.Event(), threading.Event(), threading.Event()

        def first() -> None:
            with self.step("first"):
                symbolic_trace(Signalling(begun, second, self.limit))
            ended.set()

        def other() -> None:
            assert begun.wait(WAIT)
            with self.step("second"):
                # Its forward lets the first one end, and ends only after it.
                symbolic_trace(Signalling(second, ended, WAIT))

        threads = [self.thread(first), self.thread(other)]
        for thread in threads:
            thread.join()
        after = torch.compile(lambda states: states.cos() * 3, backend="aot_eager")

        def call() -> None:
            with self.step("after"):
                after(torch.ones(3))

        self.thread(call).join()


def main(*wanted: str) -> None:
    """Run each scenario in a child and print what it came to, a line of JSON each."""
    for it in wanted:
        if child := os.fork():
            os.waitpid(child, 0)
            continue
        try:
            name, _, mode = it.partition("-")
            scenario = Scenario(gated=mode == "gate")
            getattr(scenario, name)()
            print(json.dumps({"name": it, "errors": scenario.errors, "damage": damage()}), flush=True)  # noqa: T201 - the result
        finally:
            # A child ends here, whatever came; what is missing from stdout has its reason on stderr.
            if sys.exc_info()[0] is not None:
                traceback.print_exc()
            os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
