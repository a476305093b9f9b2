"""Readings of a real environment on a host the test supplies."""

from dataclasses import replace
from pathlib import Path

from envdoctor.facts.context import Options, Reading
from envdoctor.facts.host import Host
from envdoctor.facts.target import resolve
from envdoctor.probes.registry import chosen


def bare_host(home: Path, **environ: str) -> Host:
    """Return this machine with an environment of its own: nothing of the developer's leaks in."""
    home.mkdir(parents=True, exist_ok=True)
    empty = home / "nothing"
    return replace(
        Host.current(),
        environ={"PATH": "/usr/bin:/bin", **environ},
        home=home,
        user="me",
        cwd=home,
        tmp=home / "tmp",
        sys=empty,
        dev=empty,
    )


def read(prefix: Path, host: Host | None = None, options: Options | None = None) -> Reading:
    """Return a reading of the environment at `prefix`."""
    options = options or Options()
    return Reading(
        target=resolve(prefix),
        host=host or bare_host(prefix.parent / "home"),
        options=options,
        probes=chosen(options),
    )
