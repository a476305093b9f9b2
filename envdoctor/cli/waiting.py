"""What is said while something takes seconds and has no progress to show: nobody waits in silence."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from envdoctor.cli.terminal import say


@contextmanager
def waiting(text: str) -> Iterator[None]:
    """Say on stderr at once what is going on: one line, on a terminal with a spinner that goes when it is done."""
    if sys.stderr is None or not sys.stderr.isatty():
        say(text)
        yield
        return
    from rich.console import Console
    from rich.markup import escape

    with Console(stderr=True).status(escape(text)):
        yield
