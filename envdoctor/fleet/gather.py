"""Runs one command a node, several at a time: bounded in what is read and in how long it may take."""

import concurrent.futures
import contextlib
import errno
import os
import select
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import IO

from envdoctor.facts.on_failure import on_failure
from envdoctor.facts.programs import outside_venvs
from envdoctor.fleet.answer import MAXIMUM, NO_PYTHON, NodeReport, answer_in
from envdoctor.fleet.carried import Errand
from envdoctor.model.frozen import frozen

_OUT, _ERR = MAXIMUM + (1 << 20), 1 << 16
"""Bytes that are kept of a node's streams: an answer and what a login shell says, and the last of its errors."""
_CHUNK = 1 << 16
_TERM_SECONDS = 2.0
_STEP_SECONDS = 0.5
"""Between two looks at whether to stop, for a command that has closed its streams and goes on."""


@frozen
class Said:
    """What a node printed, or why it printed nothing."""

    name: str
    out: bytes
    problem: str = ""
    begun: bool = True
    """False where it is known that nothing was begun there."""


@frozen
class Heard:
    """What one command said."""

    code: int | None
    """None where it did not start, or was given up."""
    out: bytes
    err: bytes
    problem: str = ""
    """Why it was ended, or did not start."""
    started: bool = True


def gather(
    errands: Sequence[Errand],
    command_of: Callable[[Errand], Sequence[str]],
    payload: bytes,
    *,
    at_once: int,
    timeout: float,
) -> list[NodeReport]:
    """Return a report of each errand, in order. An interrupt ends all commands before it leaves."""
    said = listen(errands, command_of, payload, at_once=at_once, timeout=timeout)
    return [
        NodeReport(name=one.name, answer=None, problem=one.problem)
        if one.problem
        else answer_in(one.name, errand.mark, one.out)
        for errand, one in zip(errands, said, strict=True)
    ]


def listen(
    errands: Sequence[Errand],
    command_of: Callable[[Errand], Sequence[str]],
    payload: bytes | memoryview,
    *,
    at_once: int,
    timeout: float,
) -> list[Said]:
    """Return what the node of each errand printed, in order. An interrupt ends all commands before it leaves."""
    stopped, stop = os.pipe()
    try:
        with concurrent.futures.ThreadPoolExecutor(max(1, min(at_once, len(errands)))) as pool:

            def end() -> None:
                os.write(stop, b"!")
                pool.shutdown(wait=False, cancel_futures=True)

            with on_failure(end):
                running = [pool.submit(_said, one, command_of(one), payload, timeout, stopped) for one in errands]
                return [future.result() for future in running]
    finally:
        os.close(stopped)
        os.close(stop)


def _said(errand: Errand, command: Sequence[str], payload: bytes | memoryview, timeout: float, stopped: int) -> Said:
    heard = hear(command, payload, timeout, stopped=stopped)
    said = last_line(heard.err)
    problem = heard.problem
    if not problem and heard.code == NO_PYTHON:
        problem = no_python(said, errand.version)
    elif not problem and heard.code:
        problem = f"{command[0]} ended with {_ending(heard.code)}" + (f": {said}" if said else "")
    begun = heard.started and (heard.code != NO_PYTHON or bool(heard.problem))
    return Said(name=errand.node, out=heard.out, problem=problem, begun=begun)


def hear(
    command: Sequence[str],
    payload: bytes | memoryview,
    timeout: float,
    most: int = _OUT,
    stopped: int | None = None,
) -> Heard:
    """Run a command with these bytes on its standard input, in a group of its own, and return what it said.

    most: bytes of its output; with more it is ended. stopped: a descriptor; it is ended when that is readable.
    """
    program = outside_venvs(command[0], os.environ)
    if program is None:
        return _not_started(command, os.strerror(errno.ENOENT))
    try:
        process = subprocess.Popen(
            list(command),
            executable=program,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )
    except OSError as error:
        return _not_started(command, error.strerror)
    with process:
        try:
            ends = _Ends(timeout=timeout, until=time.monotonic() + timeout, most=most, stopped=stopped)
            return _conversation(process, payload, ends)
        finally:
            _end(process)


def _not_started(command: Sequence[str], why: str | None) -> Heard:
    return Heard(code=None, out=b"", err=b"", problem=f"{command[0]} cannot be started: {why}", started=False)


class _GivenUpError(Exception):
    """A command is listened to no longer: why, as its node's problem."""


@frozen
class _Ends:
    """When a command is listened to no longer."""

    timeout: float
    """Seconds in all."""
    until: float
    """On the monotonic clock."""
    most: int
    """Bytes of output."""
    stopped: int | None
    """A descriptor that is readable when nobody waits any more."""

    def left(self, missing: str) -> float:
        """Return the seconds that are left. Raises _GivenUpError, which says what is missing, where none are."""
        if self.stopped is not None and select.select((self.stopped,), (), (), 0)[0]:
            raise _GivenUpError("it was not waited for")
        if (remaining := self.until - time.monotonic()) <= 0:
            raise _GivenUpError(f"{missing} within {self.timeout:g} s")
        return remaining


def _conversation(process: "subprocess.Popen[bytes]", payload: bytes | memoryview, ends: _Ends) -> Heard:
    out, err = bytearray(), bytearray()
    problem = ""
    try:
        _exchange(process, payload, (out, err), ends)
        while process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(min(ends.left("it did not end"), _STEP_SECONDS))
    except _GivenUpError as error:
        problem = str(error)
    return Heard(code=process.poll(), out=bytes(out), err=bytes(err), problem=problem)


def _exchange(
    process: "subprocess.Popen[bytes]", payload: bytes | memoryview, kept: tuple[bytearray, bytearray], ends: _Ends
) -> None:
    """Write the payload and keep what is said, until both streams are closed. Raises _GivenUpError."""
    assert process.stdin is not None  # noqa: S101 - pipes were asked for
    assert process.stdout is not None  # noqa: S101 - as above
    assert process.stderr is not None  # noqa: S101 - as above
    streams = {process.stdout.fileno(): kept[0], process.stderr.fileno(): kept[1]}
    left = memoryview(payload)
    os.set_blocking(process.stdin.fileno(), False)
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdin, selectors.EVENT_WRITE)
        for source in (*streams, *([] if ends.stopped is None else [ends.stopped])):
            selector.register(source, selectors.EVENT_READ)
        while streams:
            for key, _ in selector.select(ends.left("it did not answer")):
                if key.fd == ends.stopped:
                    break  # and there is nothing left
                if key.fileobj is process.stdin:
                    left = _give(process.stdin, left, selector)
                elif chunk := os.read(key.fd, _CHUNK):
                    streams[key.fd] += chunk
                else:
                    selector.unregister(key.fd)
                    del streams[key.fd]
            del kept[1][:-_ERR]
            if len(kept[0]) > ends.most:
                raise _GivenUpError(f"it answered more than {ends.most // (1 << 20)} MB")


def _give(stdin: IO[bytes], left: memoryview, selector: selectors.DefaultSelector) -> memoryview:
    try:
        left = left[os.write(stdin.fileno(), left[:_CHUNK]) :]
    except BlockingIOError:
        return left
    except BrokenPipeError:
        left = left[:0]  # it ended before it had read all
    if not left:
        selector.unregister(stdin)
        stdin.close()
    return left


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End what is left of the command's group."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        if process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_TERM_SECONDS)
    process.poll()


def no_python(said: str, version: tuple[int, int] | None = None) -> str:
    """Return what a node without a new enough Python is told with, from what its shell saw."""
    seen = ", ".join(part.strip() for part in said.split(",") if len(part.split()) > 1)
    wanted = (
        "no Python {}.{}, for which what travels is compiled,".format(*version)
        if version
        else "no Python 3.11 or newer"
    )
    return f"{wanted} is there ({seen or 'none at all'}); name one: `--python PATH`"


def last_line(err: bytes) -> str:
    """Return the last line of what was said on standard error."""
    lines = [line.strip() for line in err.decode("utf-8", "replace").splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


def _ending(code: int) -> str:
    try:
        return f"exit code {code}" if code > 0 else signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
