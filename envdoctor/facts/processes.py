"""The running processes, as far as the kernel lets this user look (proc(5))."""

import os
from collections.abc import Iterator
from pathlib import Path

# Of a command line that is shown: enough to know the process by, and one line of a report.
_WIDEST = 120


def processes(proc: Path) -> Iterator[Path]:
    """Yield the folder of each process below `proc`, by number."""
    try:
        names = os.listdir(proc)  # noqa: PTH208 - names alone, hundreds of them
    except OSError:
        return
    yield from (proc / name for name in sorted((name for name in names if name.isdecimal()), key=int))


def closed(proc: Path) -> list[Path]:
    """Return the programs into which the kernel does not let this user look, of any user."""
    return [process for process in processes(proc) if _refuses(process) and _is_program(process)]


def _refuses(process: Path) -> bool:
    # What is asked for, not access(2): root without CAP_SYS_PTRACE may read some of it, or none.
    try:
        (process / "environ").open("rb").close()
        (process / "cwd").readlink()
    except PermissionError:
        return True
    except OSError:
        return False  # it has ended
    return False


def _is_program(process: Path) -> bool:
    """Tell a program from a thread of the kernel, which has no command line."""
    try:
        return bool((process / "cmdline").read_bytes().strip(b"\0"))
    except PermissionError:
        return True  # /proc is mounted with hidepid=1
    except OSError:
        return False


def strings(file: Path) -> list[bytes]:
    """Return the parts of a file of strings that end in NUL (cmdline, environ); none for one that cannot be read."""
    try:
        content = file.read_bytes()
    except OSError:
        return []
    return content.rstrip(b"\0").split(b"\0") if content.strip(b"\0") else []


def command_line(words: list[bytes]) -> str:
    """Return a command line in at most 120 characters."""
    command = b" ".join(words).decode(errors="replace")
    return command if len(command) <= _WIDEST else f"{command[: _WIDEST - 3]}..."
