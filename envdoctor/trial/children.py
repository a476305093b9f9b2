"""What a command leaves running is ended with it, also what has left its session and its group (a daemon)."""

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Collection, Iterator
from pathlib import Path

from envdoctor.errors import RestoreError
from envdoctor.facts.processes import command_line, processes, strings

# prctl(2): orphans among the descendants become children of this process, not of init.
_SET_SUBREAPER, _GET_SUBREAPER = 36, 37
_PRCTL = ctypes.CDLL(None).prctl
_PROC = Path("/proc")
_PATIENCE = 10.0
_PAUSE = 0.01


@contextlib.contextmanager
def ending_all() -> Iterator[list[str]]:
    """End every process that the block started and left behind; give their command lines, complete after the block.

    Raises RestoreError for one that does not end.
    """
    before = ctypes.c_int(0)
    _PRCTL(_GET_SUBREAPER, ctypes.byref(before), 0, 0, 0)
    _PRCTL(_SET_SUBREAPER, 1, 0, 0, 0)
    known = frozenset(_children())
    ended: list[str] = []
    try:
        yield ended
    finally:
        try:
            _end_all(known, ended)
        finally:
            _PRCTL(_SET_SUBREAPER, before.value, 0, 0, 0)


def _end_all(known: Collection[int], ended: list[str]) -> None:
    # What they started becomes a child of ours as soon as they are gone: until there is none.
    until = time.monotonic() + _PATIENCE
    seen: set[int] = set()
    while left := [pid for pid in _children() if pid not in known]:
        for pid in left:
            if pid not in seen and (words := strings(_PROC / str(pid) / "cmdline")):
                ended.append(command_line(words))
            seen.add(pid)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        if time.monotonic() > until:
            raise RestoreError(
                f"the command left processes that do not end: {', '.join(map(str, left))}",
                f"see what they wait for: `ps -o pid,stat,wchan,args -p {','.join(map(str, left))}`",
            )
        time.sleep(_PAUSE)


def _children() -> Iterator[int]:
    own = str(os.getpid()).encode()
    for process in processes(_PROC):
        try:
            # The name, in parentheses, may hold any character; then the state and the parent follow (proc(5)).
            if (process / "stat").read_bytes().rpartition(b")")[2].split()[1] == own:
                yield int(process.name)
        except (OSError, IndexError):
            continue  # it has ended
