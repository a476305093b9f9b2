"""What is to be undone where a block does not come to its end, whatever ends it; that goes on as it was."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager


@contextmanager
def on_failure(undo: Callable[[], object]) -> Iterator[None]:
    """Call `undo` where the block ends in an error or a stop. Nothing is caught: it goes on when `undo` returns."""
    with ExitStack() as stack:
        stack.callback(undo)
        yield
        stack.pop_all()
