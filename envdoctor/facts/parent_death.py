"""What a child does first, so that it does not outlive a parent that is killed (prctl(2), PR_SET_PDEATHSIG)."""

import ctypes
import os
import signal
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1
_PRCTL = ctypes.CDLL(None).prctl


def ending_with(parent: int, number: int = signal.SIGTERM) -> Callable[[], None]:
    """Return what a child does first: have the kernel send it a signal when `parent` is killed.

    The kernel means the thread that starts the child: start it from one that lives as long as the parent.
    """

    def ask() -> None:
        _PRCTL(_PR_SET_PDEATHSIG, number)
        if os.getppid() != parent:
            os._exit(1)  # it was killed meanwhile

    return ask
