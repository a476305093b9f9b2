"""Signals that ask a command to stop, put off where Python would lose the exception that answers them.

Python calls some code whose exceptions it prints and drops (`sys.unraisablehook`): what runs at a fork, `__del__`, the
callback of a weak reference. The KeyboardInterrupt of a signal that arrives there is lost, and the command goes on.
"""

import _thread
import os
import signal
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_MOMENT = 0.01
"""Seconds after which the code that drops exceptions has ended; where it has not, the next try follows."""
_LOST: list[type[BaseException]] = []
"""The exception of a stop that was lost, until it is raised again."""


@contextmanager
def put_off() -> Iterator[None]:
    """Put stops off until the block ends, where what answers them is called; it may raise KeyboardInterrupt.

    For a block that must not be left half-way, and around a fork. A process that the block forks leaves them out until
    it decides otherwise. Raises KeyboardInterrupt at once where one was lost shortly before. In a thread or interpreter
    that is not Python's main one no signal is answered, and nothing is put off.
    """
    came: list[int] = []
    # Not a signal mask: another thread would take the signal, and Python would still raise in this one.
    before: dict[int, Any] = {int(number): signal.getsignal(number) for number in STOPS if _is_answered(number)}
    try:
        try:
            for number in before:
                signal.signal(number, lambda number, _: came.append(number))
        except ValueError:  # Python's own test: the main thread may be any of a program that embeds it
            before.clear()
        else:
            raise_lost()
        yield
    finally:
        _restore(before)
        for number in dict.fromkeys(came):
            signal.raise_signal(number)


def _is_answered(number: int) -> bool:
    return signal.getsignal(number) not in (signal.SIG_IGN, None)


def _restore(left: dict[int, Any]) -> None:
    try:
        while left:
            number, handler = next(iter(left.items()))
            signal.signal(number, handler)
            del left[number]
    except BaseException:  # a stop that comes now is answered; the others are from here on
        _restore(left)
        raise


def fork() -> int:
    """Fork, in a block of `put_off`; Python warns of threads in the parent, and they are ours and hold no lock."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def answer_stops() -> None:
    """Have SIGTERM and SIGHUP raise KeyboardInterrupt, as Ctrl-C does; what nohup ignores stays ignored."""
    for number in STOPS:
        if number != signal.SIGINT and _is_answered(number):
            signal.signal(number, signal.default_int_handler)


def end_by_stops() -> None:
    """Have stops end this process from now on, as they end any program; what is ignored stays ignored.

    One that came before is answered first, by KeyboardInterrupt for example.
    """
    for number in STOPS:
        if _is_answered(number):
            signal.signal(number, signal.SIG_DFL)
    raise_lost()


def raise_lost() -> None:
    """Raise KeyboardInterrupt where a stop was lost and has not been raised again yet."""
    if _LOST:
        _LOST.clear()
        raise KeyboardInterrupt


def raise_again() -> None:
    """Raise the interrupt of a stop again, from now on, where Python drops it. For a process of our own."""
    sys.unraisablehook = _dropped


def _dropped(what: "sys.UnraisableHookArgs") -> None:
    if not issubclass(what.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(what)
        return
    _LOST.append(what.exc_type)
    _thread.start_new_thread(_deliver, (_thread.get_ident(),))  # not from here: what is raised here is dropped too


def _deliver(thread: int) -> None:
    time.sleep(_MOMENT)
    if _LOST:
        _LOST.clear()
        for number in STOPS:
            if callable(signal.getsignal(number)):
                signal.pthread_kill(thread, number)  # it ends a system call too, which `interrupt_main` does not
                return
