"""Several threads meet one new signature at once: one runs it alone, the others then run it together."""

import threading
import time

import pytest

from trainer.runtime.compile_gate import CompileGate


@pytest.mark.parametrize("threads", [2, 3, 5])
def test_threads_that_waited_for_the_same_new_step_all_get_in(threads: int) -> None:
    gate = CompileGate(count=lambda: 0, by_device=False, patience=20.0)
    first_inside, others_stand = threading.Event(), threading.Event()
    alone: list[bool] = []
    failures: list[BaseException] = []

    def work(index: int) -> None:
        try:
            for step in range(3):
                with gate.step("shape", "cuda:0") as is_alone:
                    alone.append(is_alone)
                    if index == step == 0:
                        first_inside.set()
                        others_stand.wait(10)
        except BaseException as error:  # noqa: BLE001 - told to the test's own thread
            failures.append(error)

    workers = [threading.Thread(target=work, args=(index,)) for index in range(threads)]
    workers[0].start()
    assert first_inside.wait(10)
    for worker in workers[1:]:
        worker.start()
    deadline = time.monotonic() + 10
    while gate.queued < threads - 1 and time.monotonic() < deadline:
        time.sleep(0.001)
    others_stand.set()
    for worker in workers:
        worker.join(30)
    assert failures == []
    assert sorted(alone, reverse=True) == [True] + [False] * (3 * threads - 1)
    assert gate.queued == 0
