"""Certificates that an operator appended to a bundle of a distribution (certifi), kept when that is installed again."""

from collections.abc import Collection, Iterable
from pathlib import Path

from envdoctor.analysis.damage import is_longer_bundle
from envdoctor.facts.regular_file import read_regular
from envdoctor.probes.venv.installed_files import FileFault

_MAXIMUM = 64 << 20


def longer_bundles(faults: Iterable[FileFault], names: Collection[str]) -> tuple[str, ...]:
    """Return the bundles of these distributions that are longer than published, relative to the venv."""
    return tuple(
        fault.path
        for fault in faults
        if fault.owner in names and not fault.path.startswith("/") and is_longer_bundle(fault)
    )


def carry_appended(venv: Path, copy: Path, paths: Collection[str]) -> None:
    """Append to each bundle of the copy what the venv's has beyond it; a link to uv's cache is replaced."""
    for path in paths:
        old, at = read_regular(venv / path, _MAXIMUM), copy / path
        if not at.is_file():
            continue
        new = read_regular(at, _MAXIMUM)
        mode = at.stat().st_mode
        at.unlink()
        at.write_bytes(old if old.startswith(new) else new + b"\n" + old[len(new) :])
        at.chmod(mode)
