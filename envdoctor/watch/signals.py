"""Signals of a watched command: each reaches it once, be it sent to this process alone or to all of a group."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable
from types import FrameType
from typing import Any, Self

from envdoctor.facts.children import start_child
from envdoctor.facts.programs import outside_venvs

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
_SETTLED = 1.0
"""Seconds after which a signal for all has reached all."""
_BATCH_STEP = "4294967291"
"""SLURM_STEP_ID of a batch script, whose shell alone is signalled."""
_FOREVER = "2147483647"


class Forwarding:
    """While it is entered, hands signals on to the command that it starts, but those that the command got too.

    Slurm signals every process of a step, a terminal its whole group; anybody else may signal this process alone. Which
    it was is seen from a third process, which every signal ends: where it lives on, nobody else was signalled. A signal
    that comes before the command runs is handed on when it does; one for all that comes in the milliseconds in which it
    is started may reach it twice, since the other way round it could be lost.
    """

    def __init__(self) -> None:
        """Nothing is answered yet."""
        self._process: subprocess.Popen[bytes] | None = None
        self._witness: _Witness | None = None
        self._early: list[int] = []
        self._pending: list[int] = []
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        """Answer signals."""
        for number in FORWARDED:
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup's choice, which the command inherits
                self._before[number] = signal.signal(number, self._forward)
        if _in_step() or _terminal_group() is not None:
            self._before[signal.SIGALRM] = signal.signal(signal.SIGALRM, self._settle)
            self._witness = _Witness()
        return self

    def start(self, start: Callable[[], "subprocess.Popen[bytes]"]) -> "subprocess.Popen[bytes]":
        """Return the command that `start` starts. Raises what that raises."""
        self._process = start()
        for number in self._early:
            self._process.send_signal(number)
        return self._process

    def __exit__(self, *error: object) -> None:
        """Have signals answered as before."""
        if self._witness is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
            self._witness.end()
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _forward(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self._process is None:
            self._early.append(number)
        elif self._witness is not None and _may_be_for_all(number):
            self._pending.append(number)
            signal.setitimer(signal.ITIMER_REAL, _SETTLED)
        else:
            self._process.send_signal(number)

    def _settle(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        told, self._pending[:] = self._pending[:], []
        if self._process is not None and self._witness is not None and not self._witness.was_ended():
            for one in told:
                self._process.send_signal(one)


class _Witness:
    """A process of this group and step that does nothing, and that every signal ends."""

    def __init__(self) -> None:
        """Start it."""
        self._process = _asleep()

    def was_ended(self) -> bool:
        """Tell whether a signal ended it, and start the next one where it did. Without one nobody can tell: no."""
        if self._process is None or self._process.poll() is None:
            return False
        self._process = _asleep()
        return True

    def end(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def _asleep() -> "subprocess.Popen[bytes] | None":
    program = outside_venvs("sleep", os.environ)
    if program is None:
        return None
    with contextlib.suppress(OSError):
        return start_child(
            [program, _FOREVER],
            ending=signal.SIGKILL,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={},
        )
    return None


def _may_be_for_all(number: int) -> bool:
    return _in_step() or (number in (signal.SIGINT, signal.SIGQUIT) and _terminal_group() == os.getpgrp())


def _in_step() -> bool:
    return os.environ.get("SLURM_STEP_ID") not in (None, "", _BATCH_STEP)


def _terminal_group() -> int | None:
    """Return the group that the terminal signals; None where this process has no terminal."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return None
    try:
        return os.tcgetpgrp(terminal)
    except OSError:
        return None
    finally:
        os.close(terminal)
