"""Running a function in a forked child with limits of time and memory: a hang or a blow-up fails one test.

The time is that of the processor: a busy machine makes a test slow, which says nothing about it. A child that waits for
something that never comes uses none, so it also has ten times as long by the clock.
"""

import faulthandler
import os
import pickle
import resource
import signal
import sys
import traceback
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


class ChildError(AssertionError):
    """The child crashed, hung, or ran out of its memory."""


def forked(function: Callable[[], Result], *, seconds: int = 30, megabytes: int = 600) -> Result:
    """Return what `function` returns in a child that may use so much time and so much more address space."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _run(function, writer, seconds, megabytes)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code == -signal.SIGXCPU:
        raise ChildError(f"it did not end within {seconds} s of the processor's time")
    if code == -signal.SIGALRM:
        raise ChildError(f"it did not end within {10 * seconds} s")
    if code < 0 or not said:
        raise ChildError(f"it ended with {code}")
    outcome, value = pickle.loads(said)  # noqa: S301 - written by our own child
    if outcome == "error":
        raise ChildError(value)
    result: Result = value
    return result


def _run(function: Callable[[], object], writer: int, seconds: int, megabytes: int) -> None:
    code = 0
    try:
        faulthandler.disable()
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(10 * seconds)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
        used = _address_space()
        resource.setrlimit(resource.RLIMIT_AS, (used + megabytes * 1024 * 1024,) * 2)
        said = pickle.dumps(("result", function()))
    except BaseException:  # noqa: BLE001 - whatever it is, the parent tells it
        said = pickle.dumps(("error", traceback.format_exc()))
        code = 1
    with os.fdopen(writer, "wb") as pipe:
        pipe.write(said)
    sys.stdout.flush()
    os._exit(code)


def _address_space() -> int:
    with open("/proc/self/statm") as file:  # noqa: PTH123 - as short as it gets
        return int(file.read().split()[0]) * resource.getpagesize()
