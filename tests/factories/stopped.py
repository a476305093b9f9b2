"""The envdoctor command, asked to stop at a point where Python drops the exception that answers a signal.

Run as a program in place of `python -m envdoctor`: `stopped.py HOW SIGNAL AT EVENTS ARGUMENTS`. With HOW `fork` the
signal comes while Python's own work at the fork number AT is done, in the parent; with `del` while an object is taken
apart right before change number AT of the venv's store. Each of these points is written to the file EVENTS.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path


class _Dropped:
    """Python prints and drops what its `__del__` raises."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        _send(self.number)


def _send(number: int) -> None:
    os.kill(os.getpid(), number)
    for _ in range(100):  # Python looks for signals at the end of a loop's turn
        pass


def watch(how: str, number: int, at: int, events: str) -> None:
    """Send the signal at point number `at` (0: never)."""
    descriptor = os.open(events, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    count = 0

    def reached(line: str, send: Callable[[int], object]) -> None:
        nonlocal count
        count += 1
        os.write(descriptor, (line.replace("\n", " ") + "\n").encode())
        if count == at:
            send(number)

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if (line := told(event, arguments)) and "/.envdoctor/" in line and "/uv-cache" not in line:
            reached(line, _Dropped)

    if how == "fork":

        def forked() -> None:
            reached("fork", _send)

        # Python calls it as the hooks of its own: what it raises is dropped.
        os.register_at_fork(after_in_parent=forked)
    else:
        sys.addaudithook(hook)


if __name__ == "__main__":
    if not sys.flags.isolated:
        # The command would start itself again without PYTHONPATH, and without the hook.
        os.execv(sys.executable, [sys.executable, "-I", *sys.argv])  # noqa: S606
    sys.path.append(str(Path(__file__).parents[2]))
    from envdoctor.__main__ import main
    from tests.factories.killed import told

    _, how, number, at, events, *sys.argv[1:] = sys.argv
    watch(how, int(number), int(at), events)
    main()
