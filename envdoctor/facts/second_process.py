"""Work that a child of this process does while this one goes on: on a free core it takes no time by the clock.

The child is a fork, which has all that was read so far without a copy of it, answers through a pipe, and ends. Python's
threads could not do this: they take turns at each system call. Where there is no child, or it did not answer whole,
the work is done here, with the same result.
"""

import _thread
import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from envdoctor.facts.stops import STOPS, fork, put_off
from envdoctor.model.frozen import mutable

_PIECE = 1024 * 1024
_OWN: set[int] = set()
"""Native ids of the threads that `start_thread` started and that still run."""


def start_thread(run: Callable[[], None]) -> None:
    """Run that in a thread that counts as envdoctor's own: it holds no lock that the work of a child may need."""
    known = _thread.allocate_lock()
    known.acquire()

    def body() -> None:
        _OWN.add(_thread.get_native_id())
        known.release()
        try:
            run()
        finally:
            _OWN.discard(_thread.get_native_id())

    _thread.start_new_thread(body, ())
    known.acquire()


@mutable
class ChildsWork:
    """One piece of work, and the child that does it, if there is one."""

    work: Callable[[], Any]
    """Returns what JSON can say."""
    reader: int = -1
    child: int = 0
    answered: bool = False

    def result(self) -> Any:
        """Return what the work gives, as JSON says it: a list for a tuple. Raises what the work raises."""
        try:
            return json.loads(self._answer()) if self.child else self.work()
        except (OSError, ValueError):
            # It was killed, or failed: where the work itself fails, it does so here again, and says why.
            return self.work()
        finally:
            self.end()

    def end(self) -> None:
        """Take leave of the child: one that nobody waits for would stay a zombie as long as this process runs.

        One that did not answer to the end is killed: on a slow file system it would go on for minutes.
        """
        if self.child:
            if not self.answered:
                with suppress(OSError):
                    os.kill(self.child, signal.SIGKILL)
            with suppress(OSError):
                os.close(self.reader)
            with suppress(OSError):  # somebody else's handler may have waited for it
                os.waitpid(self.child, 0)
            self.child = 0

    def _answer(self) -> bytes:
        pieces = []
        while piece := os.read(self.reader, _PIECE):
            pieces.append(piece)
        self.answered = True
        return b"".join(pieces)


@contextmanager
def beside(work: Callable[[], Any], *, all_are_ours: bool = False) -> Iterator[ChildsWork]:
    """Begin the work in a child where that is safe and of use; the block asks for the `result`.

    all_are_ours: envdoctor started every thread of this process. Otherwise there is no child where threads run that
    `start_thread` did not start: they may hold a lock that nobody in the child would ever let go (fork(2)). There is
    none without a second core. The work takes no lock that a thread of ours may hold: it imports nothing and prints
    nothing.
    """
    begun = ChildsWork(work=work)
    try:
        if len(os.sched_getaffinity(0)) > 1 and (all_are_ours or not _others()):
            with suppress(OSError):  # no process may be started, or no file opened: the work is done here
                _begin(begun)
        yield begun
    finally:
        begun.end()


def _others() -> bool:
    """Tell whether threads run that are not known as envdoctor's own; without /proc they may."""
    try:
        running = {int(name) for name in os.listdir("/proc/self/task")}  # noqa: PTH208 - names only
    except OSError:
        return True
    return not running <= {_thread.get_native_id(), *_OWN}


def _begin(begun: ChildsWork) -> None:
    with put_off():
        reader, writer = os.pipe()
        here = os.getpid()
        try:
            child = _forked(reader)
            if child == 0:
                # It keeps the signals from itself, since it ends when its work does, or is killed.
                signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
                os.close(reader)  # so that it ends, and does not wait, where nobody wants its answer any more
                _write(json.dumps(begun.work()).encode(), writer)
            begun.reader, begun.child = reader, child
        finally:
            if os.getpid() != here:
                # Whatever happened: what called this function, buffers and exit functions are the parent's.
                os._exit(0)
            os.close(writer)


def _forked(reader: int) -> int:
    """Fork; no process, no reader. Raises OSError where the system has none left."""
    try:
        return fork()
    except OSError:
        os.close(reader)
        raise


def _write(answer: bytes, writer: int) -> None:
    left = memoryview(answer)
    while left:
        left = left[os.write(writer, left) :]
