"""Programs that this process starts and that do not outlive it (prctl(2), PR_SET_PDEATHSIG)."""

import ctypes
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from envdoctor.facts.on_failure import on_failure
from envdoctor.facts.stops import put_off

_PR_SET_PDEATHSIG = 1
_PRCTL = ctypes.CDLL(None).prctl


def start_child(
    command: Sequence[str | Path], *, ending: signal.Signals = signal.SIGTERM, **options: Any
) -> "subprocess.Popen[Any]":
    """Start a program, which the kernel sends the signal `ending` when this process is killed.

    options: as Popen takes them. The kernel means the thread that starts it: call this from one that lives as long as
    the process. Raises OSError; where a stop came meanwhile, the program is ended before KeyboardInterrupt goes on.
    """
    process: subprocess.Popen[Any] | None = None

    def end() -> None:
        if process is not None:
            kill(process)

    with on_failure(end), put_off():
        process = subprocess.Popen(command, preexec_fn=_ending_with(os.getpid(), ending), **options)  # noqa: PLW1509 - two system calls, looked up before the fork
    return process


def run_child(
    command: Sequence[str | Path], given: bytes | None = None, *, timeout: float | None = None, **options: Any
) -> "subprocess.CompletedProcess[Any]":
    """Run a program to its end, as subprocess.run with `capture_output` does; it does not outlive this process.

    given: what it reads from standard input. Raises OSError and TimeoutExpired; whatever ends the wait, the program is
    killed first.
    """
    stdin = subprocess.DEVNULL if given is None else subprocess.PIPE
    piped = {"stdin": stdin, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    with start_child(command, **piped) as process, on_failure(lambda: kill(process)):
        out, err = process.communicate(given, timeout=timeout)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def kill(process: "subprocess.Popen[Any]") -> None:
    """End a program at once, and wait for its end."""
    process.kill()
    process.wait()


def _ending_with(parent: int, number: signal.Signals) -> Callable[[], None]:
    def ask() -> None:
        _PRCTL(_PR_SET_PDEATHSIG, number)
        if os.getppid() != parent:
            os._exit(1)  # it was killed meanwhile

    return ask
