"""The terminal as the other side of a command: what is about to be done, questions and progress, all on stderr."""

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from envdoctor.app.result import Result, ShowProgress
from envdoctor.cli.hashing import hashing
from envdoctor.cli.late import hush
from envdoctor.cli.leaving import leaving
from envdoctor.cli.output import style_on
from envdoctor.cli.shown import shown
from envdoctor.cli.terminal import say
from envdoctor.cli.waiting import stage, waiting
from envdoctor.errors import UsageError
from envdoctor.model.events import Event, Listener
from envdoctor.report.rendering import as_text


class Terminal:
    """Talks to a person; stdout belongs to the result."""

    def show(self, result: Result) -> None:
        """Show what is about to be done."""
        say(as_text(result, style_on(sys.stderr)).rstrip("\n"))

    def agreed(self, question: str) -> bool:
        """Ask; raise UsageError where nobody can answer, KeyboardInterrupt where the answer is cut off."""
        self.needs_answer("check the plan, then add `--yes`")
        hush()
        print(leaving(f"{question} [y/N] "), end="", file=sys.stderr, flush=True)  # noqa: T201 - a question is not a result
        answer = sys.stdin.readline()
        if not answer:
            raise KeyboardInterrupt
        return answer.strip().lower() in {"y", "yes"}

    def needs_answer(self, hint: str) -> None:
        """Raise UsageError, with that hint, where nobody could answer a question that comes later."""
        if not sys.stdin.isatty():
            raise UsageError("confirmation needed, but stdin is not a terminal", hint)

    def note(self, text: str) -> None:
        """Say one thing beside the result."""
        say(text)

    @contextmanager
    def listening(self, *, plain: bool = False) -> Iterator[Listener]:
        """Give a listener."""
        if plain or shown().quiet:
            yield _say_nothing if shown().quiet else _say_each
            return
        from envdoctor.cli.progress import progress

        with progress() as listen:
            yield listen

    def waiting(self, text: str) -> AbstractContextManager[None]:
        """Say what is going on while something takes seconds and has no progress to show."""
        return nullcontext() if shown().quiet else waiting(text)

    def stage(self, text: str) -> AbstractContextManager[None]:
        """Say what is begun now, and that it goes on, however long it takes."""
        return nullcontext() if shown().quiet else stage(text)

    def hashing(self) -> AbstractContextManager[ShowProgress | None]:
        """Give what to call while files are hashed; None where nobody watches."""
        return hashing(quiet=shown().quiet)


def _say_nothing(event: Event) -> None:
    del event


def _say_each(event: Event) -> None:
    say(event.text)
