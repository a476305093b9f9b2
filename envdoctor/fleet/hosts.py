"""Nodes by name: a file of hosts for the system's ssh. Pure but for the file; a name can never become an option."""

import re
from collections.abc import Sequence
from pathlib import Path

from envdoctor.errors import UsageError
from envdoctor.facts.regular_file import read_regular
from envdoctor.fleet.carried import Errand
from envdoctor.model.frozen import frozen

_MAXIMUM, _MOST = 1 << 20, 10_000
# ssh(1): [user@]hostname. A name that begins with a dash would be an option, `%` and blanks mean something to ssh.
_HOST = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*@)?[A-Za-z0-9_\[:][A-Za-z0-9_.:\]-]*")
_CONNECT_SECONDS = 10
_ALIVE_SECONDS, _ALIVE_TIMES = 15, 4
"""A host that says nothing to so many questions, so far apart, is gone: a network that drops packets closes nothing."""


@frozen
class NamedHost:
    """One line of the file."""

    name: str
    venv: str
    """On that host; empty where the line does not name one."""


def hosts_in(path: Path) -> tuple[NamedHost, ...]:
    """Return the hosts of a file: one a line, its venv behind it where it has one of its own; `#` begins a comment.

    Raises UsageError for a file that cannot be read, and for a line that is no host, with its number.
    """
    try:
        lines = read_regular(path, _MAXIMUM).decode("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UsageError(f"--hosts {path}: {reason}", "name a text file with one host a line") from error
    found: dict[str, NamedHost] = {}
    for number, line in enumerate(lines, start=1):
        words = line.partition("#")[0].split(maxsplit=1)
        if not words:
            continue
        if not _HOST.fullmatch(words[0]):
            raise UsageError(
                f"{path}, line {number}: {words[0]!r} is not a host name", "write `HOST`, `USER@HOST` or `HOST VENV`"
            )
        if "\0" in line:
            raise UsageError(f"{path}, line {number}: a path holds no NUL character", "write `HOST VENV`")
        if words[0] in found:
            raise UsageError(f"{path}, line {number}: {words[0]} is named twice", "name each host once")
        found[words[0]] = NamedHost(name=words[0], venv=words[1].strip() if len(words) > 1 else "")
    if not found or len(found) > _MOST:
        problem = f"more than {_MOST:,} hosts" if found else "no host"
        raise UsageError(f"--hosts {path}: {problem}", "write one host a line")
    return tuple(found.values())


def ssh_command(errand: Errand, config: str) -> Sequence[str]:
    """Return the command of the system's ssh: it asks nothing, and what ends its options stands before the host."""
    options = ["-T", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={_CONNECT_SECONDS}"]
    options += ["-o", f"ServerAliveInterval={_ALIVE_SECONDS}", "-o", f"ServerAliveCountMax={_ALIVE_TIMES}"]
    given = ["-F", config] if config else []
    # The remote shell is anybody's: one word in single quotes, which every shell reads alike.
    script = "'" + errand.shell().replace("'", "'\\''") + "'"
    return ["ssh", *options, *given, "--", errand.node, f"sh -c {script}"]
