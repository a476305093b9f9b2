"""Work in a child of this process: the same result with a child and without one, and nobody left behind."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from envdoctor.facts.second_process import beside
from tests.factories.run_envdoctor import ROOT


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a second core, and no thread of the test runner's in the count."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr("envdoctor.facts.second_process._others", lambda: False)


def _children() -> list[str]:
    return Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text(encoding="ascii").split()


def test_a_child_does_the_work_and_is_gone_when_it_is_told() -> None:
    before = _children()
    with beside(lambda: [os.getpid(), "\udcff", ("é", 2**70)]) as begun:
        (child,) = set(_children()) - set(before)
        assert begun.result() == [int(child), "\udcff", ["é", 2**70]]
        assert _children() == before


def test_nobody_is_left_where_nobody_asked() -> None:
    before, open_before = _children(), _open()
    with pytest.raises(ZeroDivisionError), beside(lambda: "x" * 1_000_000):
        raise ZeroDivisionError
    assert (_children(), _open()) == (before, open_before)


def _open() -> list[str]:
    return sorted(path.name for path in Path("/proc/self/fd").iterdir())


def _dies() -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def _half() -> Any:
    write = os.write
    os.write = lambda descriptor, data: (write(descriptor, data[:3]), _dies())[0]
    return "done by the child"


def _raises() -> Any:
    raise RuntimeError


@pytest.mark.parametrize("broken", [_dies, _half, _raises])
def test_what_the_child_does_not_say_whole_is_done_here(broken: Callable[[], Any]) -> None:
    here = os.getpid()

    def work() -> str:
        if os.getpid() != here:
            broken()
        return "done here"

    with beside(work) as begun:
        assert begun.child
        assert begun.result() == "done here"


def test_ctrl_c_before_the_child_works_ends_the_child_and_nothing_that_is_the_parents(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here, close = os.getpid(), os.close

    def interrupted(descriptor: int) -> None:
        if os.getpid() != here:
            raise KeyboardInterrupt
        close(descriptor)

    monkeypatch.setattr("os.close", interrupted)
    with beside(os.getpid) as begun:
        assert begun.child
        assert begun.result() == here


def test_what_fails_here_too_says_why() -> None:
    def work() -> str:
        raise PermissionError(13, "refused", "/site")

    with beside(work) as begun, pytest.raises(PermissionError, match=r"\[Errno 13\] refused: '/site'"):
        begun.result()


@pytest.mark.parametrize(("cores", "others", "ours", "child"), [
    (1, False, False, False), (2, False, False, True), (2, True, False, False), (2, True, True, True),
])  # fmt: skip
def test_there_is_a_child_only_where_it_is_safe_and_of_use(
    monkeypatch: pytest.MonkeyPatch, *, cores: int, others: bool, ours: bool, child: bool
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(cores)))
    monkeypatch.setattr("envdoctor.facts.second_process._others", lambda: others)
    with beside(os.getpid, all_are_ours=ours) as begun:
        assert bool(begun.child) is child
        assert (begun.result() != os.getpid()) is child


def test_a_child_that_does_not_end_is_not_waited_for() -> None:
    here = os.getpid()

    def work() -> int:
        while os.getpid() != here:
            signal.pause()
        return here

    before = _children()
    with beside(work) as begun:
        assert begun.child
    assert _children() == before


def test_where_no_process_may_be_started_the_work_is_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    open_before = _open()
    monkeypatch.setattr("os.fork", refused)
    with beside(os.getpid) as begun:
        assert (begun.child, begun.result()) == (0, os.getpid())
    assert _open() == open_before


def test_threads_of_the_program_count_ours_do_not_and_a_handler_that_takes_every_child_does_no_harm() -> None:
    program = (
        "import contextlib, os, signal, sys, threading\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        "from envdoctor.facts.second_process import beside, start_thread\n"
        "os.sched_getaffinity = lambda _: {0, 1}\n"
        "def take(*_):\n"
        "    with contextlib.suppress(ChildProcessError):\n"
        "        os.waitpid(-1, 0)\n"
        "signal.signal(signal.SIGCHLD, take)\n"
        "stop = threading.Event()\n"
        "start_thread(stop.wait)\n"
        "with beside(os.getpid) as begun:\n"
        "    print(begun.child > 0, begun.result() != os.getpid())\n"
        "threading.Thread(target=stop.wait, daemon=True).start()\n"
        "with beside(os.getpid) as begun:\n"
        "    print(begun.child, begun.result() == os.getpid())\n"
        "stop.set()\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("True True\n0 True\n", "")
