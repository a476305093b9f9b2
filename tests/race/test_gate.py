"""The gate's promises one by one, with events in place of luck."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import nn
from torch.fx import symbolic_trace

from trainer.compile.state import damage
from trainer.errors import CompileStateError
from trainer.runtime.compile_gate import CompileGate

PATIENCE = 20.0


class Steps:
    """Threads that enter a gate and stay inside until told to leave."""

    def __init__(self, gate: CompileGate) -> None:
        """Bind the gate."""
        self.gate = gate
        self.inside: list[str] = []
        self.alone: dict[str, bool] = {}
        self.failures: list[BaseException] = []
        self._leave: dict[str, threading.Event] = {}
        self._threads: dict[str, threading.Thread] = {}

    def enter(self, name: str, signature: str, device: str = "cuda:0") -> None:
        """Start a thread that enters a step and stays."""
        leave = self._leave[name] = threading.Event()

        def work() -> None:
            try:
                with self.gate.step(signature, device) as alone:
                    self.alone[name] = alone
                    self.inside.append(name)
                    assert leave.wait(PATIENCE)
                    self.inside.remove(name)
            except BaseException as error:  # noqa: BLE001 - told to the test's own thread
                self.failures.append(error)

        self._threads[name] = threading.Thread(target=work, name=name)
        self._threads[name].start()

    def leave(self, name: str) -> None:
        """Let a thread leave its step."""
        self._leave[name].set()
        self._threads[name].join(PATIENCE)
        assert not self._threads[name].is_alive()

    def expect(self, *names: str) -> None:
        """Wait until exactly these are inside, and see that it stays so."""
        until(lambda: sorted(self.inside) == sorted(names), lambda: f"{self.inside} inside, {names} expected")
        time.sleep(0.05)
        assert sorted(self.inside) == sorted(names)


def until(met: Callable[[], bool], told: Callable[[], str]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not met():
        assert time.monotonic() < deadline, told()
        time.sleep(0.002)


@contextmanager
def steps(
    *, by_device: bool = False, known: tuple[str, ...] = (), count: Callable[[], int] = lambda: 0
) -> Iterator[Steps]:
    gate = CompileGate(count=count, by_device=by_device, patience=PATIENCE)
    for signature in known:
        for device in ("cuda:0", "cuda:1"):
            with gate.step(signature, device):
                pass
    made = Steps(gate)
    yield made
    for name in list(made._leave):
        made.leave(name)
    assert made.failures == []


def test_a_new_step_runs_alone_and_known_ones_together() -> None:
    with steps(known=("a", "b")) as made:
        made.enter("one", "a")
        made.enter("two", "b")
        made.enter("three", "a")
        made.expect("one", "two", "three")
        made.enter("new", "c")
        until(lambda: made.gate.queued == 1, lambda: "the new step does not queue")
        made.leave("one")
        made.leave("two")
        made.expect("three")
        made.leave("three")
        made.expect("new")
        made.enter("late", "a")
        made.expect("new")
        made.leave("new")
        made.expect("late")
        assert made.alone == {"one": False, "two": False, "three": False, "new": True, "late": False}
        assert made.gate.knows("c", "cuda:0")


def test_known_steps_cannot_keep_a_new_one_out() -> None:
    with steps(known=("a",)) as made:
        made.enter("long", "a")
        made.expect("long")
        made.enter("new", "b")
        until(lambda: made.gate.queued == 1, lambda: "the new step does not queue")
        made.enter("behind", "a")
        made.expect("long")
        made.leave("long")
        made.expect("new")
        made.leave("new")
        made.expect("behind")


def test_new_steps_run_one_after_another() -> None:
    with steps() as made:
        made.enter("first", "a")
        made.expect("first")
        made.enter("second", "b")
        made.enter("third", "c")
        until(lambda: made.gate.queued == 2, lambda: "they do not queue")
        made.expect("first")
        made.leave("first")
        until(lambda: len(made.inside) == 1, lambda: f"{made.inside} inside")
        made.expect(*made.inside)
        made.leave(made.inside[0])
        until(lambda: len(made.inside) == 1, lambda: f"{made.inside} inside")
        assert made.alone == {"first": True, "second": True, "third": True}


@pytest.mark.parametrize(("by_device", "together"), [(False, ["old"]), (True, ["new", "old"])])
def test_other_devices_wait_only_where_the_tracing_flag_is_global(*, by_device: bool, together: list[str]) -> None:
    with steps(by_device=by_device, known=("a",)) as made:
        made.enter("old", "a", "cuda:1")
        made.expect("old")
        made.enter("new", "b", "cuda:0")
        made.expect(*together)
        made.leave("old")
        made.expect("new")
        # Known on one device is not known on another.
        assert not made.gate.knows("b", "cuda:1")


def test_a_step_that_fails_stays_new() -> None:
    gate = CompileGate(count=lambda: 0, by_device=False)
    for _ in range(2):
        with pytest.raises(ValueError, match="out of memory"), gate.step("a"):
            raise ValueError("out of memory")
    assert not gate.knows("a")
    with gate.step("a") as alone:
        assert alone
    with gate.step("a") as alone:
        assert not alone
    stats = gate.stats
    assert (stats.alone, stats.together, stats.demoted) == (3, 1, 0)


def test_compiling_inside_a_known_step_makes_its_signature_new_again() -> None:
    compiled = [0]
    gate = CompileGate(count=lambda: compiled[0], by_device=False)
    with gate.step("a"):
        compiled[0] += 3
    assert gate.knows("a")
    with gate.step("a"):
        compiled[0] += 1
    assert not gate.knows("a")
    with gate.step("a") as alone:
        assert alone
        compiled[0] += 1
    with gate.step("a") as alone:
        assert not alone
    assert gate.stats.demoted == 1


def test_a_compile_on_another_device_is_not_held_against_a_known_step() -> None:
    compiled = [0]
    with steps(by_device=True, known=("a",), count=lambda: compiled[0]) as made:
        made.enter("old", "a", "cuda:1")
        made.expect("old")
        made.enter("new", "b", "cuda:0")
        made.expect("old", "new")
        compiled[0] += 5
        made.leave("old")
        assert made.gate.knows("a", "cuda:1")


def test_a_step_inside_a_step_is_refused() -> None:
    gate = CompileGate(count=lambda: 0)
    with gate.step("outer"), pytest.raises(CompileStateError) as caught, gate.step("inner"):
        pass
    assert caught.value.message == "a step ('inner') was entered inside another ('outer') of the same thread"


def test_who_holds_the_gate_is_named_when_patience_ends() -> None:
    gate = CompileGate(count=lambda: 0, by_device=False, patience=0.2)
    inside, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with gate.step("slow", "cuda:0"):
            inside.set()
            leave.wait(PATIENCE)

    holder = threading.Thread(target=hold)
    holder.start()
    assert inside.wait(PATIENCE)
    with pytest.raises(CompileStateError) as caught, gate.step("other", "cuda:1"):
        pass
    leave.set()
    holder.join()
    assert caught.value.message == "step ('cuda:1', 'other') stood 0.2 s at the gate, which ('cuda:0', 'slow') holds"
    assert gate.queued == 0


def test_a_look_at_the_compile_state_waits_for_a_trace_behind_the_gate() -> None:
    gate = CompileGate()
    inside, go_on = threading.Event(), threading.Event()

    class Traced(nn.Module):
        def forward(self, states: torch.Tensor) -> torch.Tensor:
            inside.set()
            assert go_on.wait(60)
            return states + 1

    def trace() -> None:
        with gate.step(("target", 64)):
            symbolic_trace(Traced())

    seen: list[list[str]] = []

    def look() -> None:
        with gate.look():
            seen.append(damage())

    tracing, looking = threading.Thread(target=trace), threading.Thread(target=look)
    tracing.start()
    assert inside.wait(60)
    assert damage() != []
    looking.start()
    looking.join(0.3)
    assert seen == []
    go_on.set()
    looking.join(60)
    tracing.join(60)
    assert seen == [[]]


def test_a_look_keeps_steps_out_until_it_is_over() -> None:
    gate = CompileGate()
    with gate.step("known"):
        pass
    started, entered = threading.Event(), threading.Event()

    def steps() -> None:
        started.set()
        for signature in ("known", "new"):
            with gate.step(signature):
                entered.set()

    thread = threading.Thread(target=steps)
    with gate.look():
        thread.start()
        assert started.wait(60)
        assert not entered.wait(0.2)
    thread.join(60)
    assert entered.is_set()
