"""What the commands about kept venvs share: the question before a change."""

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from envdoctor import __version__
from envdoctor.cli.terminal import say
from envdoctor.documents import profile_store
from envdoctor.errors import ProfileError, UsageError
from envdoctor.facts.host import Host
from envdoctor.model.wording import counted

if TYPE_CHECKING:  # a restore asks its question without the kept venvs' own code
    from envdoctor.swap.generations import Generation

HEAD = {"schema_version": 1, "tool": {"name": "envdoctor", "version": __version__}}


def agreed(question: str) -> bool:
    """Ask on stderr, since stdout belongs to the result. Raises UsageError where nobody can answer."""
    if not sys.stdin.isatty():
        raise UsageError("confirmation needed, but stdin is not a terminal", "check the plan, then add `--yes`")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)  # noqa: T201 - a question is no result
    answer = sys.stdin.readline()
    if not answer:
        raise KeyboardInterrupt
    return answer.strip().lower() in {"y", "yes"}


def launch_hosts(host: Host) -> tuple[Host, ...]:
    """Return this machine as it is, and as each known profile's launch would see it: that decides where caches lie."""
    seen = [host]
    for name in profile_store.names(host.cwd):
        try:
            variables = profile_store.find(name, host.cwd).profile.environment.set
        except ProfileError as error:
            say(f"warning: {error.message}; where its caches lie is not known")
            continue
        seen.append(replace(host, environ={**host.environ, **variables}))
    return tuple(seen)


def line(generation: "Generation") -> str:
    """Return what a venv is, in one line without its number."""
    parts = [
        generation.profile or "not made by envdoctor",
        f"CPython {generation.python}" if generation.python else "no Python",
        f"torch {generation.torch}" if generation.torch else "no torch",
        counted(generation.packages, "package"),
    ]
    return ", ".join(parts)
