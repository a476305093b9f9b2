"""Which running processes use a venv: they go on with the files they have, whatever is swapped in."""

import os
from collections.abc import Iterator
from pathlib import Path

from envdoctor.model.plan import User


def users(venv: Path, proc: Path) -> tuple[User, ...]:
    """Return the processes that map a file of the venv, or were started by its path, as far as one may look.

    Read from /proc/PID/maps and /proc/PID/cmdline (proc(5)); this process itself is left out.
    """
    return tuple(user for user in _processes(proc) if user.pid != os.getpid() and _uses(proc / str(user.pid), venv))


def _processes(proc: Path) -> Iterator[User]:
    try:
        names = os.listdir(proc)  # noqa: PTH208 - names alone, hundreds of them
    except OSError:
        return
    for name in sorted((name for name in names if name.isdecimal()), key=int):
        try:
            words = (proc / name / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
        except OSError:
            continue  # it has ended
        yield User(pid=int(name), command=b" ".join(words).decode(errors="replace")[:120])


def _uses(process: Path, venv: Path) -> bool:
    inside = os.fsencode(venv) + b"/"
    try:
        if (process / "cmdline").read_bytes().startswith(inside):
            return True
        return inside in (process / "maps").read_bytes()
    except OSError:
        return False  # it has ended, or is another user's: the kernel lets nobody look
