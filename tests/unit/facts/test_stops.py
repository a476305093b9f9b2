"""Stops where Python would lose what they raise: put off, answered by whoever answers them, raised again."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

from envdoctor.facts.children import start_child
from envdoctor.facts.stops import STOPS, put_off
from tests.factories.run_envdoctor import ROOT


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in STOPS}
    yield
    assert {number: signal.getsignal(number) for number in STOPS} == before


def test_a_stop_waits_until_the_block_is_done() -> None:
    done = []

    def interrupted() -> None:
        with put_off():
            os.kill(os.getpid(), signal.SIGINT)
            done.append("after the signal")

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert done == ["after the signal"]


def test_a_stop_is_not_lost_with_an_error_of_the_block() -> None:
    def interrupted() -> None:
        with put_off():
            os.kill(os.getpid(), signal.SIGINT)
            raise ZeroDivisionError

    with pytest.raises(KeyboardInterrupt) as raised:
        interrupted()
    assert isinstance(raised.value.__context__, ZeroDivisionError)


def test_who_answers_a_signal_answers_it_afterwards_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    answered: list[object] = []

    def answer(number: int, frame: FrameType | None) -> None:
        answered.append((number, frame is not None))

    before = {number: signal.signal(number, answer) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        with put_off():
            with put_off():
                os.kill(os.getpid(), signal.SIGHUP)
                os.kill(os.getpid(), signal.SIGTERM)
                os.kill(os.getpid(), signal.SIGTERM)
            assert answered == []
        assert sorted(answered, key=str) == [(signal.SIGHUP, True), (signal.SIGTERM, True)]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_what_is_ignored_stays_ignored_and_the_default_ends_the_process() -> None:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            with put_off():
                os.kill(os.getpid(), signal.SIGHUP)
            code = 2
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            with put_off():
                os.kill(os.getpid(), signal.SIGTERM)
            code = 3
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM


def test_a_thread_of_its_own_needs_no_protection() -> None:
    ran: list[bool] = []

    def work() -> None:
        with put_off():
            ran.append(signal.getsignal(signal.SIGINT) is signal.default_int_handler)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert ran == [True]


_ELSEWHERE = """
import importlib, sys
for name in ("_interpreters", "_xxsubinterpreters"):
    try:
        interpreters = importlib.import_module(name)
        break
    except ImportError:
        continue
code = f"import sys; sys.path[:] = {sys.path!r}; from envdoctor.facts.stops import put_off\\n"
failed = interpreters.run_string(interpreters.create(), code + "with put_off(): print('done', flush=True)")
sys.exit(str(failed) if failed else 0)
"""


def test_an_interpreter_that_answers_no_signals_goes_on() -> None:
    """Where a program embeds Python, the process's first thread need not be Python's main one."""
    assert _ran(_ELSEWHERE) == (0, "done\n", "")


_AT_THE_END = """
import os, signal, sys
from envdoctor.facts import stops

signal.signal(signal.SIGINT, signal.default_int_handler)
stops.raise_again()
stops._MOMENT = 600.0

class Dropped:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        [None for _ in range(9)]

from envdoctor import __main__
from envdoctor.cli import direct

def checked(arguments):
    Dropped()
    return 0

direct.run = checked
sys.argv[1:] = ["check"]
__main__.main()
"""


def test_a_stop_in_the_last_moment_is_not_lost_with_the_process() -> None:
    assert _ran(_AT_THE_END) == (130, "", "error: interrupted\n")


def test_a_child_blocks_and_ignores_what_its_parent_does_and_nothing_else() -> None:
    show = ["grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"]
    plain = subprocess.run(show, stdout=subprocess.PIPE, check=True).stdout
    process = start_child(show, stdout=subprocess.PIPE)
    assert process.communicate()[0] == plain


_FORKS = """
import os, signal, subprocess, sys
from envdoctor.facts.children import start_child

signal.signal(signal.SIGINT, signal.default_int_handler)
os.register_at_fork(after_in_parent=lambda: [os.kill(os.getpid(), signal.SIGINT), *range(9)])
try:
    start_child(["sleep", "600"])
except KeyboardInterrupt:
    os.register_at_fork = None
    try:
        os.waitpid(-1, 0)
    except ChildProcessError:
        print("interrupted, and no child is left")
"""
_DROPS = """
import os, signal, sys, time
from envdoctor.facts.stops import put_off, raise_again

signal.signal(signal.SIGINT, signal.default_int_handler)
raise_again()

class Dropped:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0)

try:
    Dropped()
    WAIT
except KeyboardInterrupt:
    print("interrupted")
class Fails:
    def __del__(self):
        raise ZeroDivisionError("something else")
Fails()
"""


def _ran(code: str) -> tuple[int, str, str]:
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def test_a_stop_during_the_work_at_a_fork_ends_the_child_and_is_raised() -> None:
    assert _ran(_FORKS) == (0, "interrupted, and no child is left\n", "")


@pytest.mark.parametrize("wait", ["time.sleep(600)", "with put_off(): raise SystemExit('begun')"])
def test_a_stop_that_python_dropped_is_raised_again_and_before_what_cannot_be_left(wait: str) -> None:
    code, out, err = _ran(_DROPS.replace("WAIT", wait))
    assert (code, out) == (0, "interrupted\n"), err
    # What else Python drops, it says as ever.
    assert err.startswith("Exception ignored in: <function Fails.__del__")
    assert err.endswith("ZeroDivisionError: something else\n")
    assert "KeyboardInterrupt" not in err


def test_every_fork_is_one_that_a_stop_cannot_be_lost_in() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {word}"
        for path in sorted(Path(ROOT, "envdoctor").rglob("*.py"))
        for word in ("preexec_fn=", "os.fork()", "os.forkpty()", "import multiprocessing")
        if word in path.read_text(encoding="utf-8")
    ]
    assert found == ["envdoctor/facts/children.py: preexec_fn=", "envdoctor/facts/stops.py: os.fork()"]
