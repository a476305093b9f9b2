"""Runs one command a node, several at a time: bounded in what is read and in how long it may take."""

import concurrent.futures
import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import IO

from envdoctor.fleet.answer import MAXIMUM, NO_PYTHON, NodeReport, answer_in
from envdoctor.fleet.carried import Errand
from envdoctor.model.frozen import frozen

_OUT, _ERR = MAXIMUM + (1 << 20), 1 << 16
"""Bytes that are kept of a node's streams: an answer and what a login shell says, and the last of its errors."""
_CHUNK = 1 << 16
_TERM_SECONDS = 2.0


@frozen
class Heard:
    """What one command said."""

    code: int | None
    """None where it did not start."""
    out: bytes
    err: bytes
    problem: str = ""
    """Why it was ended, or did not start."""


def gather(
    errands: Sequence[Errand],
    command_of: Callable[[Errand], Sequence[str]],
    payload: bytes,
    *,
    at_once: int,
    timeout: float,
    done: Callable[[NodeReport], None],
) -> list[NodeReport]:
    """Return a report of each errand, in order. `done` is called from this thread as they come."""
    reports: dict[str, NodeReport] = {}
    with concurrent.futures.ThreadPoolExecutor(max(1, min(at_once, len(errands)))) as pool:
        running = {pool.submit(_report, one, command_of(one), payload, timeout): one for one in errands}
        try:
            for future in concurrent.futures.as_completed(running):
                report = future.result()
                reports[report.name] = report
                done(report)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [reports[one.node] for one in errands]


def _report(errand: Errand, command: Sequence[str], payload: bytes, timeout: float) -> NodeReport:
    heard = hear(command, payload, timeout)
    said = last_line(heard.err)
    if heard.problem:
        return NodeReport(name=errand.node, answer=None, problem=heard.problem)
    if heard.code == NO_PYTHON:
        return NodeReport(name=errand.node, answer=None, problem=no_python(said))
    if heard.code:
        why = f"{command[0]} ended with {_ending(heard.code)}" + (f": {said}" if said else "")
        return NodeReport(name=errand.node, answer=None, problem=why)
    return answer_in(errand.node, errand.mark, heard.out)


def hear(command: Sequence[str], payload: bytes, timeout: float, most: int = _OUT) -> Heard:
    """Run a command with these bytes on its standard input, in a group of its own, and return what it said.

    most: bytes of its output; with more it is ended.
    """
    try:
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )
    except OSError as error:
        return Heard(code=None, out=b"", err=b"", problem=f"{command[0]} cannot be started: {error.strerror}")
    with process:
        try:
            return _conversation(process, payload, timeout, most)
        finally:
            _end(process)


def _conversation(process: "subprocess.Popen[bytes]", payload: bytes, timeout: float, most: int) -> Heard:
    until = time.monotonic() + timeout
    assert process.stdin is not None  # noqa: S101 - pipes were asked for
    assert process.stdout is not None  # noqa: S101 - as above
    assert process.stderr is not None  # noqa: S101 - as above
    stdout, stderr = process.stdout, process.stderr
    kept = {stdout: bytearray(), stderr: bytearray()}
    left = memoryview(payload)
    os.set_blocking(process.stdin.fileno(), False)

    def heard(problem: str = "") -> Heard:
        return Heard(code=process.poll(), out=bytes(kept[stdout]), err=bytes(kept[stderr]), problem=problem)

    with selectors.DefaultSelector() as selector:
        selector.register(process.stdin, selectors.EVENT_WRITE)
        for stream in kept:
            selector.register(stream, selectors.EVENT_READ)
        while set(kept) & {key.fileobj for key in selector.get_map().values()}:
            if (remaining := until - time.monotonic()) <= 0:
                return heard(f"it did not answer within {timeout:g} s")
            for key, _ in selector.select(remaining):
                if key.fileobj is process.stdin:
                    left = _give(process.stdin, left, selector)
                    continue
                stream = stdout if key.fileobj is stdout else stderr
                chunk = os.read(stream.fileno(), _CHUNK)
                if not chunk:
                    selector.unregister(stream)
                kept[stream] += chunk
                if stream is stderr:
                    del kept[stream][:-_ERR]
                elif len(kept[stream]) > most:
                    return heard(f"it answered more than {most // (1 << 20)} MB")
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(max(0.0, until - time.monotonic()))
    return heard("" if process.returncode is not None else f"it did not end within {timeout:g} s")


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


def no_python(said: str) -> str:
    """Return what a node without a new enough Python is told with, from what its shell saw."""
    seen = ", ".join(part.strip() for part in said.split(",") if len(part.split()) > 1)
    return f"no Python 3.11 or newer is there ({seen or 'none at all'}); name one: `--python PATH`"


def last_line(err: bytes) -> str:
    """Return the last line of what was said on standard error."""
    lines = [line.strip() for line in err.decode("utf-8", "replace").splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


def _ending(code: int) -> str:
    try:
        return f"exit code {code}" if code > 0 else signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
