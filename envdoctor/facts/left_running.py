"""What a command leaves running is ended with it, also what has left its session and its group (a daemon).

It is asked to end (SIGTERM) and has a moment for it: a compile server writes out what it holds, git removes its lock.
Where this process is killed itself (SIGKILL, no memory), one that stands by does it. What belongs to a block is known
by a variable with a random value, which it inherits: a copy's folder has the same name in the next run.
"""

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import NoReturn

from envdoctor.errors import RestoreError
from envdoctor.facts.on_failure import on_failure
from envdoctor.facts.processes import command_line, processes, strings
from envdoctor.facts.stops import STOPS, fork, put_off
from envdoctor.model.frozen import frozen

# prctl(2): orphans among the descendants become children of this process, not of init.
_SET_SUBREAPER, _GET_SUBREAPER = 36, 37
_PRCTL = ctypes.CDLL(None).prctl
_PROC = Path("/proc")
_VARIABLE = "ENVDOCTOR_TRIAL"
_PATIENCE = 10.0
_GRACE = 2.0
_WORD = 1.0
"""Seconds after which it is said what is waited for."""
_PAUSE = 0.01
_LONGEST_PAUSE = 0.1
_LOOKS = 4
"""As often nothing must be found: a process that is just becoming another program shows no variables."""
Process = tuple[int, int]
"""Number, and start in clock ticks after boot: a number alone may be another process by now."""
_NOTHING_LEFT, _AT_ONCE = b".", b"!"


@frozen
class Started:
    """What a block starts, and what became of it."""

    mark: Mapping[str, str]
    """A variable that every command of the block must be started with."""
    ended: list[str]
    """Command lines of what was left running and was ended; complete after the block."""


@contextlib.contextmanager
def ending_all(note: Callable[[str], None]) -> Iterator[Started]:
    """End every process that the block started and left behind.

    What ran before is left alone, and what that starts: `job & exec envdoctor try …` makes the job a child of this
    process. Where there is such a child, only what has the mark is known to be the block's and is ended; so it is where
    this process is killed in the block. note: is told what is waited for.
    Raises RestoreError for one that does not end.
    """
    before = ctypes.c_int(0)
    _PRCTL(_GET_SUBREAPER, ctypes.byref(before), 0, 0, 0)
    _PRCTL(_SET_SUBREAPER, 1, 0, 0, 0)
    known = _descendants()
    started = Started(mark={_VARIABLE: os.urandom(16).hex()}, ended=[])
    mark = f"{_VARIABLE}={started.mark[_VARIABLE]}".encode()
    try:
        with _standing_by(mark) as (warden, say):
            try:
                yield started
            finally:
                try:
                    _end_all(known, mark, warden, started.ended, note)
                except RestoreError:
                    say(_NOTHING_LEFT)  # nothing that could be ended
                    raise
                else:
                    say(_NOTHING_LEFT)
    finally:
        _PRCTL(_SET_SUBREAPER, before.value, 0, 0, 0)


@contextlib.contextmanager
def _standing_by(mark: bytes) -> Iterator[tuple[int, Callable[[bytes], object]]]:
    """Have a process end what has that variable where this one is gone without a word; give its number.

    Beside it: what tells that process that nothing is left. Where the block ends without it, an interrupt came while
    what is left was ended: that process ends it at once.
    """
    reader, writer = os.pipe()
    warden = 0
    try:
        with put_off():
            warden = fork()
            if warden == 0:
                _stand_by(reader, mark)
        yield warden, lambda word: os.write(writer, word)
    finally:
        os.write(writer, _AT_ONCE)  # read only where nothing was told before
        os.close(writer)
        os.close(reader)
        if warden:
            os.waitpid(warden, 0)


def _stand_by(reader: int, mark: bytes) -> NoReturn:
    try:
        # What ends a group or a terminal's session does not end it, and nobody's lock or pipe stays open with it.
        os.setsid()
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
        os.dup2(reader, 0)  # the pipe's other end is closed with all else
        _close_all_but_the_first()
        told = os.read(0, 1)
        if told != _NOTHING_LEFT:
            _end_marked(mark, at_once=told == _AT_ONCE)
    finally:
        os._exit(0)


def _close_all_but_the_first() -> None:
    try:
        names = [path.name for path in Path("/proc/self/fd").iterdir()]  # the limit on descriptors may be a billion
    except OSError:
        os.closerange(1, os.sysconf("SC_OPEN_MAX"))
        return
    for descriptor in map(int, names):
        with contextlib.suppress(OSError):  # the one that listed them is closed already
            if descriptor:
                os.close(descriptor)


def _end_marked(mark: bytes, *, at_once: bool) -> None:
    """End what has that variable; at once: it is not asked first, and at most _GRACE seconds are spent."""
    began, own = time.monotonic(), os.getpid()
    asked: set[Process] = set()
    unseen = 0
    while unseen < _LOOKS:
        left = [one for one in _parents() if one[0] != own and mark in strings(_PROC / str(one[0]) / "environ")]
        unseen = 0 if left else unseen + 1
        spent = time.monotonic() - began
        if at_once or spent > _GRACE:
            _send(signal.SIGKILL, left)
        else:
            _send(signal.SIGTERM, [one for one in left if one not in asked])
        if spent > (_GRACE if at_once else _PATIENCE):
            return  # nobody is there to be told
        asked.update(left)
        time.sleep(_LONGEST_PAUSE)


def _end_all(
    known: Collection[Process], mark: bytes, warden: int, ended: list[str], note: Callable[[str], None]
) -> None:
    # What they started becomes a child of ours as soon as they are gone: until there is none.
    began, pause = time.monotonic(), _PAUSE
    asked: set[Process] = set()
    said = False

    def is_left(process: Process) -> bool:
        if process in known or process[0] == warden or _has_ended(process[0]):
            return False
        return not known or process in asked or mark in strings(_PROC / str(process[0]) / "environ")

    while left := list(filter(is_left, _children())):
        spent = time.monotonic() - began
        new = [process for process in left if process not in asked]
        ended += (command_line(words) for pid, _ in new if (words := strings(_PROC / str(pid) / "cmdline")))
        asked.update(new)
        if spent > _GRACE:
            _send(signal.SIGKILL, left)
        else:
            _send(signal.SIGTERM, new)
        if spent > _WORD and not said:
            said = True
            note(f"waiting for what the command left running to end: {'; '.join(ended)}")
        if spent > _PATIENCE:
            numbers = [str(pid) for pid, _ in left]
            raise RestoreError(
                f"the command left processes that do not end: {', '.join(numbers)}",
                f"see what they wait for: `ps -o pid,stat,wchan,args -p {','.join(numbers)}`",
            )
        with on_failure(partial(_send, signal.SIGKILL, left)):  # Ctrl-C, a second time: at once
            time.sleep(pause)
        pause = min(pause * 1.5, _LONGEST_PAUSE)


def _send(number: signal.Signals, targets: Iterable[Process]) -> None:
    for pid, _ in targets:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _has_ended(pid: int) -> bool:
    """Tell whether a child has ended; then its number is free again."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def _children() -> list[Process]:
    own = os.getpid()
    return [process for process, parent in _parents().items() if parent == own]


def _descendants() -> frozenset[Process]:
    parents = _parents()
    found: set[Process] = set()
    below = {os.getpid()}
    while more := {process for process, parent in parents.items() if parent in below} - found:
        found |= more
        below = {pid for pid, _ in more}
    return frozenset(found)


def _parents() -> Mapping[Process, int]:
    found = {}
    for process in processes(_PROC):
        try:
            # The name, in parentheses, may hold any character; then the state and the parent follow (proc(5)).
            fields = (process / "stat").read_bytes().rpartition(b")")[2].split()
            found[int(process.name), int(fields[19])] = int(fields[1])
        except (OSError, IndexError):
            continue  # it has ended
    return found
