"""The envdoctor command, killed with SIGKILL right before its n-th change of the disk.

Run as a program in place of `python -m envdoctor`, or by the server of `served`. An audit hook (PEP 578) sees each
change before it happens: opens for writing, renames, links, removals, folders made, modes changed, children started,
and the look-up of renameat2 and syncfs that comes right before their calls. They count from the first one in the venv's
store on, or in the folder that ENVDOCTOR_TEST_FROM names. With ENVDOCTOR_TEST_KILL_AT=N the process ends at the N-th;
each one before it is written to the file ENVDOCTOR_TEST_EVENTS.
With ENVDOCTOR_TEST_NO_EXCHANGE renameat2 is not found in the C library, as with an old one.
"""

import os
import signal
import sys
from pathlib import Path

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES = {
    "os.rename",
    "os.link",
    "os.symlink",
    "os.mkdir",
    "os.remove",
    "os.rmdir",
    "os.truncate",
    "os.chmod",
    "os.utime",
    "shutil.rmtree",
    "subprocess.Popen",
}
_CALLS = {"renameat2", "syncfs"}


def told(event: str, arguments: tuple[object, ...]) -> str:
    """Return a line for an event that changes something, else an empty string."""
    if event in _CHANGES:
        return f"{event} {' '.join(map(str, arguments[:2]))}"
    # A descriptor that becomes a file object changes nothing.
    if (
        event == "open"
        and not isinstance(arguments[0], int)
        and isinstance(arguments[2], int)
        and arguments[2] & _WRITES
    ):
        return f"open {arguments[0]}"
    if event == "ctypes.dlsym" and arguments[1] in _CALLS:
        return f"call {arguments[1]}"
    return ""


def watch(kill_at: int, events: str, begins: str = "/.envdoctor/", *, exchange: bool = True) -> None:
    """Write each change from now on into `events`, and end right before number `kill_at` (0: never)."""
    descriptor = os.open(events, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    count = 0

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal count
        if event == "ctypes.dlsym" and arguments[1] == "renameat2" and not exchange:
            raise AttributeError(arguments[1])
        line = told(event, arguments)
        if not line or any(part in line for part in ("__pycache__", "/pycache", "/dev/", "/.cache/envdoctor/")):
            return  # what is kept to be faster the next time is written now and then
        if not count and begins not in line:
            return  # planning, which writes into temporary folders only
        count += 1
        if count == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        os.write(descriptor, (line.replace("\n", " ") + "\n").encode())

    sys.addaudithook(hook)


if __name__ == "__main__":
    if not sys.flags.isolated:
        # The command would start itself again without PYTHONPATH, and without the hook.
        os.execv(sys.executable, [sys.executable, "-I", *sys.argv])  # noqa: S606
    sys.path.append(str(Path(__file__).parents[2]))
    from envdoctor.__main__ import main

    watch(
        int(os.environ.pop("ENVDOCTOR_TEST_KILL_AT", "0")),
        os.environ.pop("ENVDOCTOR_TEST_EVENTS"),
        os.environ.pop("ENVDOCTOR_TEST_FROM", "/.envdoctor/"),
        exchange=not os.environ.pop("ENVDOCTOR_TEST_NO_EXCHANGE", ""),
    )
    main()
