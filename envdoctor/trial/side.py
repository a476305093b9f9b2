"""One end of a bisection: a venv's folder, and which distribution owns which path of it."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from envdoctor.errors import UsageError
from envdoctor.facts.context import Options, Reading
from envdoctor.facts.host import Host
from envdoctor.facts.target import resolve
from envdoctor.model.frozen import frozen, replace
from envdoctor.probes.registry import chosen
from envdoctor.probes.venv.distribution_digests import Contents
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.probes.venv.interpreter import Interpreter
from envdoctor.probes.venv.own_packages import origin
from envdoctor.probes.venv.records import index
from envdoctor.trial.tree import VenvTree


@frozen
class Installed:
    """A distribution of one end."""

    name: str
    version: str
    content: str
    """Digest of what it consists of; empty without a RECORD."""
    requires: tuple[str, ...]
    origin: str
    """"from file:///…" for what did not come from an index; else empty."""
    linked: bool = False
    """Whether files of it are behind a link out of the venv, which uv would follow."""


@frozen
class Side:
    """A venv that is one end, with what is installed in it."""

    label: str
    """As the user named it."""
    tree: VenvTree
    installed: Mapping[str, Installed]
    """By normalized name."""
    claims: Mapping[str, Mapping[str, str]]
    """Path -> owner -> the hash field of its RECORD, empty where it states none."""
    python: str
    """"3.12"."""
    base: str
    """The base interpreter, and whether its packages are seen too."""
    markers: Mapping[str, str]


def read_side(venv: Path, label: str, host: Host, home: Path | None = None) -> Side:
    """Read one end, from its files alone. `home`: where a backup was. Raises UsageError where it is not a venv."""
    # The variables of the shell decide what else is on sys.path, not what is in the venv.
    options = Options(ask_nvml=False, contents=True)
    quiet = replace(host, environ={})
    reading = Reading(target=resolve(venv), host=quiet, options=options, probes=chosen(options))
    python = reading.fact(Interpreter)
    if not python.is_venv:
        raise UsageError(f"{label} is not a venv, and only a venv can be copied", "name a venv's folder")
    contents = {item.name: item.sha256 for item in reading.fact(Contents).items}
    items = reading.fact(Distributions).items
    found = [item for item in items if item.origin == "site-packages"]
    linked = {items[at].name for at, _ in index(reading).links}
    installed = {
        item.name: Installed(
            name=item.name,
            version=item.version,
            content=contents.get(item.name, ""),
            requires=item.requires,
            origin=origin(item),
            linked=item.name in linked,
        )
        for item in found
        if not item.shadowed
    }
    return Side(
        label=label,
        tree=VenvTree(reading.target.prefix, home),
        installed=installed,
        claims=_claims(reading),
        python=python.minor + ("t" if python.free_threaded else ""),
        base=f"{python.resolved}{' with its packages' if python.system_site_packages else ''}",
        markers=python.markers(),
    )


def _claims(reading: Reading) -> dict[str, dict[str, str]]:
    items, prefix = reading.fact(Distributions).items, f"{reading.target.prefix}{os.sep}"
    made: dict[str, dict[str, str]] = {}
    for at, rows in index(reading).rows.items():
        item = items[at]
        if item.origin != "site-packages":
            continue
        for path, stated, _ in rows:
            whole = os.path.normpath(f"{item.site}/{path}")
            if whole.startswith(prefix):
                made.setdefault(whole[len(prefix) :], {})[item.name] = stated
    return made


def owners(sides: Sequence[Side], path: str) -> list[str]:
    """Return who claims a path at any of the ends, by name."""
    return sorted({name for side in sides for name in side.claims.get(path, ())})
