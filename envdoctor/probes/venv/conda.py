"""Conda's own record of what it installed, from the names in conda-meta."""

import os
from pathlib import Path

from envdoctor.facts.context import Reading
from envdoctor.model.frozen import frozen
from envdoctor.model.pattern import pattern
from envdoctor.probes.venv.interpreter import Interpreter
from envdoctor.standards.names import normalized

# NAME-VERSION-BUILD.json; names may hold dashes, versions and builds may not (conda's package naming rules).
_RECORD = pattern(r"^(?P<name>.+)-(?P<version>[^-]+)-(?P<build>[^-]+)\.json$")
_ALIASES = {"pytorch": "torch", "pytorch-cpu": "torch", "pytorch-gpu": "torch"}


@frozen
class CondaPackage:
    """One package in conda-meta."""

    name: str
    """Normalized, under the name its Python distribution has (`torch` for conda's `pytorch`)."""
    version: str
    build: str


@frozen
class Conda:
    """Conda in and around the environment."""

    packages: tuple[CondaPackage, ...]
    """Of the environment itself; empty when it is not a conda environment."""
    base: str
    """The conda environment whose Python a venv stands on; empty when that is not a conda's."""
    active: str
    """CONDA_PREFIX, or empty."""


def probe(reading: Reading) -> Conda:
    """List conda-meta of the environment; look whether the base interpreter is conda's."""
    python = reading.fact(Interpreter)
    base = str(Path(python.home).parent) if python.home else ""
    return Conda(
        packages=_packages(reading.target.prefix / "conda-meta"),
        base=base if base and os.path.isdir(f"{base}/conda-meta") else "",  # noqa: PTH112 - never raises
        active=reading.host.environ.get("CONDA_PREFIX", ""),
    )


def _packages(folder: Path) -> tuple[CondaPackage, ...]:
    try:
        names = sorted(os.listdir(folder))  # noqa: PTH208 - names only, and fast
    except (FileNotFoundError, NotADirectoryError):
        return ()
    found = (match for name in names if (match := _RECORD.match(name)))
    return tuple(
        CondaPackage(
            name=_ALIASES.get(normalized(match["name"]), normalized(match["name"])),
            version=match["version"],
            build=match["build"],
        )
        for match in found
    )
