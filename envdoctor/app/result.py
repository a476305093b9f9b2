"""What a command returns to its caller, and how it talks meanwhile."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from envdoctor.exitcodes import ExitCode
from envdoctor.model.events import Listener
from envdoctor.model.frozen import frozen

ShowProgress = Callable[[int, int], None]
"""Called with (bytes done, bytes in all)."""


@frozen
class Result:
    """One command's answer; `report/` writes it as text or as JSON."""

    command: str
    """As it is typed after `envdoctor`: "restore", "cache status"."""
    data: Any
    """What the renderer of that command takes; None where the command was declined and has nothing to say."""
    exit_code: ExitCode = ExitCode.OK
    elsewhere: bool = False
    """Its commands are for another machine, where a program has another path than here."""


class Dialog(Protocol):
    """The person or program on the other side of a command that takes its time or changes something."""

    def show(self, result: Result) -> None:
        """Show what is about to be done."""

    def agreed(self, question: str) -> bool:
        """Ask; raise UsageError where nobody can answer, KeyboardInterrupt where the answer is cut off."""
        ...

    def needs_answer(self, hint: str) -> None:
        """Raise UsageError, with that hint, where nobody could answer a question that comes later."""

    def note(self, text: str) -> None:
        """Say one thing beside the result."""

    def listening(self, *, plain: bool = False) -> AbstractContextManager[Listener]:
        """Give a listener for events; SIGTERM and SIGHUP raise KeyboardInterrupt until the block ends.

        `plain` shows each event as one line, for what is done in a blink.
        """
        ...

    def waiting(self, text: str) -> AbstractContextManager[None]:
        """Say what is going on while something takes seconds and has no progress to show."""
        ...

    def stage(self, text: str) -> AbstractContextManager[None]:
        """Say what is begun now, and that it goes on, however long it takes."""
        ...

    def hashing(self) -> AbstractContextManager[ShowProgress | None]:
        """Give what to call while files are hashed; None where nobody watches."""
        ...
