"""Whether a journal is of the bisection that is asked: what its ends hold, their variables, and the changes."""

import hashlib
from collections.abc import Sequence

from envdoctor import __version__
from envdoctor.catalog.variables import may_be_secret
from envdoctor.facts.host import Host
from envdoctor.trial.changes import StackChange
from envdoctor.trial.ends import BisectEnd
from envdoctor.trial.journal import Asked
from envdoctor.trial.mixture import shown


def value(end: BisectEnd, name: str, host: Host) -> str | None:
    """Return what a variable is set to at an end; None where it is not set."""
    return end.variables[name] if name in end.variables else host.environ.get(name)


def unlike(asked: Asked, ends: tuple[str, str], states: tuple[str, str], changes: Sequence[str]) -> str:
    """Say what is not as when a bisection was asked, and which changes between its ends came or went since.

    Another version digests differently, so nothing is said of the ends then.
    """
    if asked.version != __version__ or len(asked.states) != len(ends):
        by = f"envdoctor {asked.version}" if asked.version not in ("", __version__) else "another version of envdoctor"
        return f"the bisection was begun by {by}, and this is {__version__}"
    named = [end for end, before, now in zip(ends, asked.states, states, strict=True) if before != now]
    what = " and ".join(dict.fromkeys(named)) or "a variable, or how the bisection was asked,"
    are = "are" if " and " in what else "is"
    more = sorted(set(changes) - set(asked.changes))
    less = sorted(set(asked.changes) - set(changes))
    told = [f"{text}: {shown(keys)}" for text, keys in (("now a change", more), ("no longer a change", less)) if keys]
    details = f" ({'; '.join(told)})" if told else ""
    return f"{what} {are} not as when it was bisected{details}"


def state(end: BisectEnd) -> str:
    """Return a digest of what an end holds."""
    digest = hashlib.sha256()
    for line in [end.built_from] if end.built_from else end.side.tree.signature():
        digest.update(line.encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def key_of(good: BisectEnd, bad: BisectEnd, states: Sequence[str], asked: Sequence[str], host: Host) -> str:
    """Return a digest of all that a verdict depends on. `asked`: what is asked of the ends, and their changes."""
    digest = hashlib.sha256()
    values = [f"{name}={value(end, name, host)}" for end in (good, bad) for name in sorted(end.variables)]
    for part in (*states, *values, *asked):
        digest.update(b"\0" + part.encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def variable_changes(good: BisectEnd, bad: BisectEnd, host: Host) -> list[StackChange]:
    """Return a change for each variable that the ends set to another value."""
    made = []
    for name in sorted(good.variables.keys() | bad.variables.keys()):
        before, after = value(good, name, host), value(bad, name, host)
        if before != after:
            made.append(
                StackChange(kind="variable", name=name, before=_told(name, before), after=_told(name, after), rank=7)
            )
    return made


def _told(name: str, value: str | None) -> str:
    if value is None:
        return "not set"
    return "a value that is not shown" if may_be_secret(name, value) else value or "empty"
