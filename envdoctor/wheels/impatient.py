"""Threads that an interrupt does not wait for: they only ask, and the process is about to end."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from envdoctor.facts.on_failure import on_failure


@contextmanager
def impatient(threads: int) -> Iterator[ThreadPoolExecutor]:
    """Give a pool; its threads are waited for at the end of the block, but not after an error or an interrupt in it."""
    pool = ThreadPoolExecutor(threads)
    with on_failure(lambda: pool.shutdown(wait=False, cancel_futures=True)):
        yield pool
    pool.shutdown()
