"""What a running restore tells its caller, so that one place can show it."""

from collections.abc import Callable
from typing import Literal

from envdoctor.model.frozen import frozen

Phase = Literal[
    "plan", "copy", "build", "download", "verify", "check", "swap", "recover", "prune", "pin", "keep", "fetch"
]


@frozen
class Event:
    """A step of the work: its phase, a line for people, and how far it is (bytes or items)."""

    phase: Phase
    text: str
    done: int = 0
    total: int = 0
    """0 when the end is not known."""


Listener = Callable[[Event], None]


def silent(event: Event) -> None:
    """Listen to nothing."""
