"""Work that a child of this process does while this one goes on: on a free core it takes no time by the clock.

The child is a fork, which has all that was read so far without a copy of it, answers through a pipe, and ends. Python's
threads could not do this: they take turns at each system call. Where there is no child, or it did not answer whole,
the work is done here, with the same result.
"""

import json
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from envdoctor.model.frozen import mutable

_PIECE = 1024 * 1024


@mutable
class ChildsWork:
    """One piece of work, and the child that does it, if there is one."""

    work: Callable[[], Any]
    """Returns what JSON can say."""
    reader: int = -1
    child: int = 0

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
        """Take leave of the child: one that nobody waits for would stay a zombie as long as this process runs."""
        if self.child:
            with suppress(OSError):
                os.close(self.reader)
            with suppress(OSError):  # somebody else's handler may have waited for it
                os.waitpid(self.child, 0)
            self.child = 0

    def _answer(self) -> bytes:
        pieces = []
        while piece := os.read(self.reader, _PIECE):
            pieces.append(piece)
        return b"".join(pieces)


@contextmanager
def beside(work: Callable[[], Any], own_threads: int | None = 0) -> Iterator[ChildsWork]:
    """Begin the work in a child where that is safe and of use; the block asks for the `result`.

    own_threads: threads of this process that envdoctor started; None where it started all of them. There is no child
    where there are others, which may hold a lock that nobody in the child would ever let go (fork(2)), and none without
    a second core. The work takes no lock that a thread of ours may hold: it imports nothing and prints nothing.
    """
    begun = ChildsWork(work=work)
    if len(os.sched_getaffinity(0)) > 1 and (own_threads is None or _threads() == 1 + own_threads):
        with suppress(OSError):  # no process may be started, or no file opened: the work is done here
            _begin(begun)
    try:
        yield begun
    finally:
        begun.end()


def _threads() -> int:
    try:
        return len(os.listdir("/proc/self/task"))  # noqa: PTH208 - names only
    except OSError:
        return 0


def _begin(begun: ChildsWork) -> None:
    reader, writer = os.pipe()
    here = os.getpid()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads: they are ours, and wait
            child = os.fork()
        if child == 0:
            os.close(reader)  # so that it ends, and does not wait, where nobody wants its answer any more
            _write(json.dumps(begun.work()).encode(), writer)
    except BaseException:
        os.close(reader)
        raise
    finally:
        if os.getpid() != here:
            # Whatever happened, Ctrl-C too: what called this function, buffers and exit functions are the parent's.
            os._exit(0)
        os.close(writer)
    begun.reader, begun.child = reader, child


def _write(answer: bytes, writer: int) -> None:
    left = memoryview(answer)
    while left:
        left = left[os.write(writer, left) :]
